//! The two ends of a stream: the source that puts, and the viewer that gets.

use std::net::SocketAddr;

use super::client::Client;
use super::response::{Body, End, Head, Response};
use super::server::Server;

/// A source that sends its media in chunks, and has been admitted.
pub struct Source {
    client: Client,
}

impl Source {
    /// Asks to stream with PUT, and waits for `100 Continue`: from then on the stream runs.
    #[track_caller]
    pub fn open(address: SocketAddr, target: &str) -> Source {
        Source::open_with(address, "PUT", target, &[])
    }

    #[track_caller]
    pub fn open_with(address: SocketAddr, method: &str, target: &str, fields: &[&str]) -> Source {
        let (mut client, head) = Source::ask(address, method, target, fields);
        if head.status != 100 {
            let mut body = Vec::new();
            client.read_body(&mut Body::new(method, &head), &mut body, |_| false);
            panic!(
                "{target} is refused with {}: {}",
                head.status,
                String::from_utf8_lossy(&body)
            );
        }
        Source { client }
    }

    /// Asks to stream, and says what the verdict's head is: 100 or a refusal, whose body is still
    /// to be read.
    #[track_caller]
    pub fn ask(address: SocketAddr, method: &str, target: &str, fields: &[&str]) -> (Client, Head) {
        let mut client = Client::connect(address);
        let usual = ["Transfer-Encoding: chunked", "Expect: 100-continue"];
        client.send_head(method, target, &[&usual, fields].concat());
        let head = client.head();
        (client, head)
    }

    /// Sends media as one chunk.
    #[track_caller]
    pub fn send(&mut self, media: &[u8]) {
        self.client.send(chunk(media));
    }

    /// Sends media to a server that may have ended the stream; says whether it took it.
    pub fn try_send(&mut self, media: &[u8]) -> bool {
        self.client.try_send(chunk(media))
    }

    /// Completes the body, and reads the answer to it.
    #[track_caller]
    pub fn finish(mut self) -> Response {
        self.client.send("0\r\n\r\n");
        self.client.response("PUT")
    }

    /// The connection, for a source that goes on in a way of its own.
    pub fn into_client(self) -> Client {
        self.client
    }
}

/// One chunk of a body.
pub fn chunk(media: &[u8]) -> Vec<u8> {
    assert!(!media.is_empty(), "an empty chunk would be the last one");
    let mut chunk = format!("{:x}\r\n", media.len()).into_bytes();
    chunk.extend_from_slice(media);
    chunk.extend_from_slice(b"\r\n");
    chunk
}

/// A viewer that has asked for a stream.
pub struct Viewer {
    client: Client,
    head: Option<Head>,
    body: Option<Body>,
    content: Vec<u8>,
}

impl Viewer {
    /// Asks, and does not wait for an answer: it may come with the source's first byte only.
    #[track_caller]
    pub fn ask(address: SocketAddr, target: &str) -> Viewer {
        let mut client = Client::connect(address);
        client.send_head("GET", target, &[]);
        Viewer::of(client)
    }

    /// The viewer of a request that has been sent.
    pub fn of(client: Client) -> Viewer {
        Viewer {
            client,
            head: None,
            body: None,
            content: Vec::new(),
        }
    }

    /// The head of the answer, which must be 200.
    #[track_caller]
    pub fn head(&mut self) -> Head {
        if let Some(head) = &self.head {
            return head.clone();
        }
        let head = self.client.head();
        assert_eq!(head.status, 200);
        self.body = Some(Body::new("GET", &head));
        self.head = Some(head.clone());
        head
    }

    /// The next `bytes` of the stream.
    #[track_caller]
    pub fn read(&mut self, bytes: usize) -> Vec<u8> {
        self.head();
        let body = self.body.as_mut().expect("the head has been read");
        let end = self
            .client
            .read_body(body, &mut self.content, |content| content.len() >= bytes);
        assert!(
            self.content.len() >= bytes,
            "the stream ended ({end:?}) after {} of {bytes} bytes",
            self.content.len()
        );
        self.content.drain(..bytes).collect()
    }

    /// The rest of the stream, and how it ended.
    #[track_caller]
    pub fn read_to_end(&mut self) -> (Vec<u8>, End) {
        self.head();
        let body = self.body.as_mut().expect("the head has been read");
        let end = self.client.read_body(body, &mut self.content, |_| false);
        (std::mem::take(&mut self.content), end)
    }

    /// Checks that the stream brings `media` and no more, and ends as it must when its source is
    /// complete.
    #[track_caller]
    pub fn assert_rest(&mut self, media: &[u8]) {
        let (rest, end) = self.read_to_end();
        assert!(
            rest == media,
            "{} bytes came that are not the {} expected",
            rest.len(),
            media.len()
        );
        assert_eq!(end, End::Complete);
    }

    /// Checks that the stream brings at most a beginning of `media` more, and then breaks off.
    #[track_caller]
    pub fn assert_lost(&mut self, media: &[u8]) {
        let (rest, end) = self.read_to_end();
        assert!(
            media.starts_with(&rest),
            "bytes came that the source did not send"
        );
        assert_eq!(end, End::CutShort);
    }

    /// The connection, for a viewer that goes on in a way of its own.
    pub fn into_client(self) -> Client {
        self.client
    }
}

/// Takes a body with ICY metadata apart: the media, and the titles with the media bytes before each.
pub fn without_titles(mut body: &[u8]) -> (Vec<u8>, Vec<(usize, String)>) {
    let (mut media, mut titles) = (Vec::new(), Vec::new());
    while body.len() > 16_000 {
        media.extend_from_slice(&body[..16_000]);
        let length = 16 * usize::from(body[16_000]);
        let block = &body[16_001..16_001 + length];
        if length > 0 {
            let text = String::from_utf8(block.to_vec()).expect("UTF-8");
            titles.push((media.len(), text.trim_end_matches('\0').to_owned()));
        }
        body = &body[16_001 + length..];
    }
    media.extend_from_slice(body);
    (media, titles)
}

/// A viewer of this session's stream.
pub fn watch(server: &Server, name: &str) -> Viewer {
    Viewer::ask(server.address(), &format!("/stream/{name}"))
}
