//! A client that sends given bytes, and reads the answer.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::os::fd::FromRawFd;

use super::response::{Body, End, Head, Response};
use super::{PATIENCE, uninterrupted};

/// One connection to the server.
pub struct Client {
    stream: TcpStream,
    /// What has been received and not been read yet.
    received: Vec<u8>,
}

/// The result of one read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    Bytes,
    /// The server has closed the connection.
    Closed,
    /// The server has reset the connection.
    Reset,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Client {
        Client::of(TcpStream::connect_timeout(&address, PATIENCE).expect("the server accepts"))
    }

    /// Connects to a loopback address from 127.0.0.2, which is no host of the API.
    pub fn connect_as_stranger(address: SocketAddr) -> Client {
        let in_4 = |ip: Ipv4Addr, port: u16| libc::sockaddr_in {
            sin_family: libc::AF_INET as libc::sa_family_t,
            sin_port: port.to_be(),
            sin_addr: libc::in_addr {
                s_addr: u32::from(ip).to_be(),
            },
            sin_zero: [0; 8],
        };
        let (own, port) = (in_4(Ipv4Addr::new(127, 0, 0, 2), 0), address.port());
        let server = in_4(Ipv4Addr::LOCALHOST, port);
        let length = size_of::<libc::sockaddr_in>() as libc::socklen_t;
        // SAFETY: the calls read `length` bytes of addresses that outlive them; the
        // new descriptor belongs to the stream alone.
        let (stream, results) = unsafe {
            let descriptor = libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0);
            let results = [
                libc::bind(descriptor, (&raw const own).cast(), length),
                libc::connect(descriptor, (&raw const server).cast(), length),
            ];
            (TcpStream::from_raw_fd(descriptor), results)
        };
        assert_eq!(results, [0, 0], "{}", std::io::Error::last_os_error());
        Client::of(stream)
    }

    fn of(stream: TcpStream) -> Client {
        stream.set_nodelay(true).expect("no delay");
        stream
            .set_read_timeout(Some(PATIENCE))
            .expect("a read time-out");
        stream
            .set_write_timeout(Some(PATIENCE))
            .expect("a write time-out");
        Client {
            stream,
            received: Vec::new(),
        }
    }

    /// The address that the server sees.
    pub fn local_address(&self) -> SocketAddr {
        self.stream.local_addr().expect("a local address")
    }

    /// Sends bytes that the server must take.
    #[track_caller]
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream
            .write_all(bytes.as_ref())
            .expect("the server takes what it is sent");
    }

    /// Sends bytes to a server that may have closed the connection; says whether it took them.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.write_all(bytes.as_ref()).is_ok()
    }

    /// Sends a head; `fields` come after `Host`.
    #[track_caller]
    pub fn send_head(&mut self, method: &str, target: &str, fields: &[&str]) {
        let host = self.stream.peer_addr().expect("the server's address");
        let mut head = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n");
        for field in fields {
            head.push_str(field);
            head.push_str("\r\n");
        }
        head.push_str("\r\n");
        self.send(head);
    }

    /// A request without a body, and its response.
    #[track_caller]
    pub fn request(&mut self, method: &str, target: &str, fields: &[&str]) -> Response {
        self.send_head(method, target, fields);
        self.response(method)
    }

    /// Says that nothing more will be sent. A server that refused what was sent may have closed the
    /// connection; its answer can be read all the same.
    pub fn finish_sending(&self) {
        if let Err(error) = self.stream.shutdown(Shutdown::Write) {
            assert_eq!(error.kind(), ErrorKind::NotConnected, "{error}");
        }
    }

    /// Resets the connection. The kernel does so when it is closed with bytes received and unread:
    /// wait for some first.
    pub fn reset(self) {
        assert!(
            self.received.is_empty(),
            "what was read cannot be left unread"
        );
        let peeked = uninterrupted(|| self.stream.peek(&mut [0]));
        let peeked = peeked.expect("the server has something to say");
        assert_eq!(peeked, 1, "the server has closed the connection already");
    }

    /// Reads once.
    #[track_caller]
    pub fn receive(&mut self) -> Arrival {
        let mut bytes = [0; 64 * 1024];
        match self.stream.read(&mut bytes) {
            Ok(0) => Arrival::Closed,
            Ok(length) => {
                self.received.extend_from_slice(&bytes[..length]);
                Arrival::Bytes
            }
            Err(error) if error.kind() == ErrorKind::ConnectionReset => Arrival::Reset,
            Err(error) if error.kind() == ErrorKind::Interrupted => self.receive(),
            Err(error) => panic!(
                "nothing comes, and the connection does not end: {error}; so far: {:?}",
                self.received_text()
            ),
        }
    }

    fn received_text(&self) -> String {
        String::from_utf8_lossy(&self.received).into_owned()
    }

    /// Reads the next head, be it an interim one.
    #[track_caller]
    pub fn head(&mut self) -> Head {
        loop {
            if let Some(end) = self
                .received
                .windows(4)
                .position(|four| four == b"\r\n\r\n")
            {
                let head: Vec<u8> = self.received.drain(..end + 4).collect();
                return Head::parse(&head);
            }
            let arrival = self.receive();
            assert_eq!(
                arrival,
                Arrival::Bytes,
                "the connection ended in a head: {:?}",
                self.received_text()
            );
        }
    }

    /// Reads the final response to a request that was sent with `method`.
    #[track_caller]
    pub fn response(&mut self, method: &str) -> Response {
        let head = self.head();
        assert!(head.status >= 200, "an interim response: {}", head.status);
        let mut body = Body::new(method, &head);
        let mut content = Vec::new();
        let end = self.read_body(&mut body, &mut content, |_| false);
        Response {
            head,
            body: content,
            end,
        }
    }

    /// Reads a body until it ends, or until `enough` says so of the content; says how it would be
    /// if it ended there.
    #[track_caller]
    pub fn read_body(
        &mut self,
        body: &mut Body,
        content: &mut Vec<u8>,
        enough: impl Fn(&[u8]) -> bool,
    ) -> End {
        loop {
            let taken = body.read(&self.received, content);
            self.received.drain(..taken);
            if body.is_complete() || enough(content) || self.receive() != Arrival::Bytes {
                return body.end();
            }
        }
    }

    /// Waits until the server ends the connection; returns what else it sent before.
    #[track_caller]
    pub fn rest(&mut self) -> Vec<u8> {
        while self.receive() == Arrival::Bytes {}
        std::mem::take(&mut self.received)
    }

    /// Waits for the beginning of an answer; nothing, if the connection ends without one.
    #[track_caller]
    pub fn answers(&mut self) -> Option<()> {
        (self.receive() == Arrival::Bytes).then_some(())
    }

    /// Checks that the server closes the connection, without another byte and without a reset.
    #[track_caller]
    pub fn assert_closed(&mut self) {
        let arrival = self.receive();
        assert_eq!(arrival, Arrival::Closed, "{:?}", self.received_text());
        assert_eq!(self.received_text(), "");
    }

    /// Checks that the connection can be used on, and that nothing lies in front of the next
    /// response.
    #[track_caller]
    pub fn assert_usable(&mut self) {
        self.request("GET", "/nowhere", &[])
            .assert_problem(404, &[]);
    }

    /// Returns the socket for tests that read it themselves. Nothing may have been read from it.
    pub fn into_stream(self) -> TcpStream {
        assert!(self.received.is_empty());
        self.stream
    }
}

/// One request on a connection of its own.
#[track_caller]
pub fn request(address: SocketAddr, method: &str, target: &str, fields: &[&str]) -> Response {
    Client::connect(address).request(method, target, fields)
}
