//! Scripts of clients: sources with every framing, viewers, API calls, and bytes that are no request.

use std::net::SocketAddr;

use tollgate::remux::Target;

use super::chance::Chance;
use super::knowledge::{Knowledge, StreamNumber};
use super::media::{self, Kind};

/// A request, and its allowed answers.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: &'static str,
    /// Offset in the client's bytes at which the server has the whole request.
    pub end: usize,
    pub asked: Asked,
}

#[derive(Clone, Debug)]
pub enum Asked {
    Publish {
        stream: StreamNumber,
        /// Its body ends as it should.
        is_whole: bool,
        expects_continue: bool,
    },
    Watch {
        session: usize,
    },
    /// A film in this container,
    Film {
        session: usize,
        to: Target,
    },
    /// a playlist,
    List {
        session: usize,
    },
    /// or a named object.
    Segment {
        session: usize,
        /// What its name says that it is.
        to: Option<Target>,
    },
    /// Statuses that the answer may have, besides those that any request may get.
    Call(&'static [u16]),
    /// It is wrong, and must be told so.
    Wrong,
    /// Any answer is allowed, or none.
    Garbage,
}

/// What a client sends, and the requests in it.
#[derive(Default)]
pub struct Script {
    pub bytes: Vec<u8>,
    pub requests: Vec<Request>,
}

impl Request {
    /// What kind of request it is.
    pub fn name(&self) -> &'static str {
        match self.asked {
            Asked::Publish { .. } => "publish",
            Asked::Watch { .. } => "watch",
            Asked::Film { .. } => "film",
            Asked::List { .. } => "list",
            Asked::Segment { .. } => "segment",
            Asked::Call(_) => "call",
            Asked::Wrong => "wrong",
            Asked::Garbage => "garbage",
        }
    }

    /// Whether its answer waits for names.
    pub fn is_with_names(&self) -> bool {
        matches!(self.asked, Asked::Call(_)) && self.method == "POST"
    }
}

impl Script {
    /// Whether nothing more has to come for its last request to be answered.
    pub fn is_whole(&self) -> bool {
        self.requests.iter().all(|request| {
            !matches!(
                request.asked,
                Asked::Publish {
                    is_whole: false,
                    ..
                }
            )
        })
    }

    fn ask(&mut self, method: &'static str, text: &str, asked: Asked) {
        self.bytes.extend_from_slice(text.as_bytes());
        self.requests.push(Request {
            method,
            end: self.bytes.len(),
            asked,
        });
    }

    pub fn watch(&mut self, session: usize, knowledge: &Knowledge, chance: &mut Chance) {
        let target = stream_target(session, knowledge, chance);
        let (version, fields) = *chance.pick(&[
            ("1.1", "Host: h\r\n"),
            ("1.1", "Host: h\r\n"),
            ("1.1", "Host: h\r\nConnection: close\r\n"),
            ("1.0", ""),
            ("1.0", "Connection: keep-alive\r\n"),
        ]);
        let method = if chance.percent(8) { "HEAD" } else { "GET" };
        let text = format!("{method} {target} HTTP/{version}\r\n{fields}\r\n");
        self.ask(method, &text, Asked::Watch { session });
    }

    /// The playlist of a session; or a segment, if one is known.
    pub fn play(
        &mut self,
        (session, known): (usize, &[String]),
        knowledge: &Knowledge,
        chance: &mut Chance,
    ) {
        let path = format!("/stream/{}", knowledge.sessions[session].encoded);
        let method = if chance.percent(8) { "HEAD" } else { "GET" };
        let (target, asked) = if !known.is_empty() && chance.percent(60) {
            let name = chance.pick(known);
            let to = match name.rsplit_once('.') {
                Some((_, "ts")) => Target::named(b"live.ts"),
                _ => None,
            };
            (format!("{path}/{name}"), Asked::Segment { session, to })
        } else {
            let newest = known.last().and_then(|name| number_in(name));
            let query = match newest.filter(|_| chance.percent(50)) {
                Some(number) => {
                    let ahead = chance.magnitude(0..=4) as u64;
                    format!("?_HLS_msn={}", number + ahead)
                }
                None => String::new(),
            };
            (format!("{path}/index.m3u8{query}"), Asked::List { session })
        };
        let text = format!("{method} {target} HTTP/1.1\r\nHost: h\r\n\r\n");
        self.ask(method, &text, asked);
    }

    /// A session's film in another container than it comes in, perhaps.
    pub fn watch_film(&mut self, session: usize, knowledge: &Knowledge, chance: &mut Chance) {
        let file = *chance.pick(&["live.ts", "live.mp4"]);
        let to = Target::named(file.as_bytes()).expect("a container");
        let path = format!("/stream/{}/{file}", knowledge.sessions[session].encoded);
        let method = if chance.percent(8) { "HEAD" } else { "GET" };
        let text = format!("{method} {path} HTTP/1.1\r\nHost: h\r\n\r\n");
        self.ask(method, &text, Asked::Film { session, to });
    }

    /// A source's request with its body; `from` is where it connects from, `script_bytes` what it
    /// sends before.
    pub fn publish(
        &mut self,
        session: usize,
        from: SocketAddr,
        script_bytes: usize,
        knowledge: &mut Knowledge,
        chance: &mut Chance,
    ) {
        let target = stream_target(session, knowledge, chance);
        let method = *chance.pick(&["PUT", "POST"]);
        let is_chunked = chance.percent(60);
        let kind = match session {
            _ if knowledge.is_segmented(session) => Kind::Sound,
            _ if knowledge.is_film(session) => Kind::Film,
            _ => *chance.pick(&[Kind::Text, Kind::Text, Kind::Binary]),
        };
        let content_bytes = if chance.percent(50) {
            chance.magnitude(0..=100_000)
        } else {
            chance.within(100_000..=1_500_000)
        };
        let content = media::content(kind, content_bytes, chance);
        let content_bytes = content.len();
        let expects_continue = chance.percent(20);
        let expect = if expects_continue {
            "Expect: 100-continue\r\n"
        } else {
            ""
        };
        let framing = if is_chunked {
            "Transfer-Encoding: chunked".to_owned()
        } else {
            format!("Content-Length: {content_bytes}")
        };
        let content_type = *chance.pick(&["", "", "Content-Type: video/x-any\r\n"]);
        let head = format!(
            "{method} {target} HTTP/1.1\r\nHost: h\r\n{expect}{content_type}{framing}\r\n\r\n"
        );
        self.bytes.extend_from_slice(head.as_bytes());
        let (stretches, is_whole) = if is_chunked {
            self.chunks(&content, chance)
        } else {
            self.plainly(&content, chance)
        };
        let stretches = stretches
            .into_iter()
            .map(|(raw, at, length)| (script_bytes + raw, at, length))
            .collect();
        let stream = knowledge.announce(session, kind, content, stretches, from);
        self.requests.push(Request {
            method,
            end: self.bytes.len(),
            asked: Asked::Publish {
                stream,
                is_whole,
                expects_continue,
            },
        });
    }

    /// An origin's answer with a stream, after what its head begins with: in chunks or with its
    /// length, or up to the connection's end.
    pub fn origin_stream(
        &mut self,
        head: &str,
        (session, from): (usize, SocketAddr),
        is_chunked: Option<bool>,
        knowledge: &mut Knowledge,
        chance: &mut Chance,
    ) -> StreamNumber {
        let kind = match knowledge.is_film(session) {
            true => Kind::Film,
            false => *chance.pick(&[Kind::Text, Kind::Text, Kind::Binary]),
        };
        let content_bytes = chance.magnitude(0..=400_000);
        let content = media::content(kind, content_bytes, chance);
        let content_bytes = content.len();
        let framing = match is_chunked {
            Some(true) => "Transfer-Encoding: chunked\r\n".to_owned(),
            Some(false) => format!("Content-Length: {content_bytes}\r\n"),
            None => String::new(),
        };
        self.bytes
            .extend_from_slice(format!("{head}{framing}\r\n").as_bytes());
        let (stretches, _) = match is_chunked {
            Some(true) => self.chunks(&content, chance),
            Some(false) => self.plainly(&content, chance),
            // Where the end of the connection is the content's, all of it comes.
            None => {
                let stretch = (self.bytes.len(), 0, content.len());
                self.bytes.extend_from_slice(&content);
                (vec![stretch], true)
            }
        };
        knowledge.announce(session, kind, content, stretches, from)
    }

    /// The content as it is, perhaps not to the end.
    fn plainly(
        &mut self,
        content: &[u8],
        chance: &mut Chance,
    ) -> (Vec<(usize, usize, usize)>, bool) {
        let stretch = (self.bytes.len(), 0, content.len());
        let is_whole = !chance.percent(25);
        let sent = if is_whole {
            content.len()
        } else {
            chance.within(0..=content.len().saturating_sub(1))
        };
        self.bytes.extend_from_slice(&content[..sent]);
        (vec![stretch], is_whole || sent == content.len())
    }

    /// The content in chunks of any size, perhaps not to the end, perhaps with a fault. Says where
    /// its stretches lie.
    fn chunks(
        &mut self,
        content: &[u8],
        chance: &mut Chance,
    ) -> (Vec<(usize, usize, usize)>, bool) {
        let mut stretches = Vec::new();
        let mut at = 0;
        let chunk_bytes_max = chance.magnitude(16..=50_000);
        let stops_at = if chance.percent(25) {
            chance.within(0..=content.len())
        } else {
            usize::MAX
        };
        while at < content.len() {
            let bytes = chance
                .magnitude(1..=chunk_bytes_max)
                .min(content.len() - at);
            let line = match chance.within(0..=9) {
                0 => format!("{bytes:X};name=\"value\"\r\n"),
                1 => format!("000{bytes:x}\r\n"),
                _ => format!("{bytes:x}\r\n"),
            };
            self.bytes.extend_from_slice(line.as_bytes());
            stretches.push((self.bytes.len(), at, bytes));
            self.bytes.extend_from_slice(&content[at..at + bytes]);
            at += bytes;
            if at >= stops_at {
                self.stop_badly(chance);
                return (stretches, false);
            }
            self.bytes.extend_from_slice(b"\r\n");
        }
        if stops_at == content.len() {
            self.stop_badly(chance);
            return (stretches, false);
        }
        let last: &[u8] = chance.pick::<&[u8]>(&[
            b"0\r\n\r\n",
            b"0\r\n\r\n",
            b"00\r\n\r\n",
            b"0;last\r\nTrailer: 1\r\n\r\n",
        ]);
        self.bytes.extend_from_slice(last);
        (stretches, true)
    }

    /// A chunked body that goes wrong, or just no further.
    fn stop_badly(&mut self, chance: &mut Chance) {
        match chance.within(0..=4) {
            0 => self.bytes.extend_from_slice(b"\n\n5\r\nhello\r\n"),
            1 => self.bytes.extend_from_slice(b"\r\n-5\r\nhello\r\n"),
            2 => self
                .bytes
                .extend_from_slice(b"\r\nfffffffffffffffff\r\nhello"),
            3 => {
                // Within the last stretch: its missing bytes never come.
                let less = chance.magnitude(0..=20).min(self.bytes.len());
                self.bytes.truncate(self.bytes.len() - less);
            }
            _ => {}
        }
    }

    /// A call of the API that must be answered with one of its statuses.
    pub fn call(&mut self, knowledge: &Knowledge, chance: &mut Chance) {
        const ADDED: &[u16] = &[200, 201, 400, 403, 503, 507];
        let session = &chance.pick(&knowledge.sessions).encoded;
        let prefix = *chance.pick(&["/api", "/api", "/api", ""]);
        let port = chance.within(5000..=5010);
        let host = chance.within(1..=6);
        let (method, target, statuses): (_, _, &'static [u16]) = match chance.within(0..=13) {
            // These show memory in use, which is less for a table that was handed over.
            9..=11 if knowledge.is_compared => {
                ("GET", format!("{prefix}/list-tokens"), &[200, 403])
            }
            0..=2 => {
                let direction = *chance.pick(&["", "", "", "&direction=in", "&direction=out"]);
                let target = format!("{prefix}/add-token?type=http&sessionid={session}{direction}");
                ("POST", target, ADDED)
            }
            3 => (
                "POST",
                format!(
                    "{prefix}/add-token?type=http,rtp-udp&sessionid={session}&udp-clients=10.7.0.{host}:{port}"
                ),
                ADDED,
            ),
            4 => (
                "POST",
                format!(
                    "{prefix}/add-token?type=rtp-udp&sessionid={session}&udp-clients=host{host}.test:{port},10.7.1.{host}:{port}"
                ),
                ADDED,
            ),
            5 => (
                "POST",
                format!(
                    "{prefix}/add-token?type=rtp-udp&sessionid={session}&udp-clients=not%20a%20host"
                ),
                &[400, 403],
            ),
            6 => {
                let abort = *chance.pick(&["", "", "&abort=true"]);
                let target = format!("{prefix}/revoke-token?sessionid={session}{abort}");
                ("DELETE", target, &[200, 403, 404, 507])
            }
            7 => {
                let block = *chance.pick(&["", "", "&block=1"]);
                let target = format!("{prefix}/abort-stream?sessionid={session}{block}");
                ("DELETE", target, &[200, 403, 404])
            }
            8 => ("GET", format!("{prefix}/list-tokens"), &[200, 403]),
            9 => ("GET", format!("{prefix}/list-streams"), &[200, 403]),
            10 => ("HEAD", format!("{prefix}/list-streams"), &[200, 403]),
            11 => (
                "GET",
                (*chance.pick(&["/metrics", "/healthz", "/"])).to_owned(),
                &[200, 403, 404],
            ),
            12 => (
                "OPTIONS",
                (*chance.pick(&["*", "/api/add-token", "/stream/a"])).to_owned(),
                &[204],
            ),
            _ => ("GET", "/nowhere/at/all".to_owned(), &[404]),
        };
        let (payload, statuses): (_, &'static [u16]) = match chance.within(0..=9) {
            0 => ("Content-Length: 5\r\n\r\nhello", statuses),
            1 => (
                "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
                statuses,
            ),
            2 => ("Connection: close\r\n\r\n", statuses),
            _ => ("\r\n", statuses),
        };
        let text = format!("{method} {target} HTTP/1.1\r\nHost: 10.9.0.1\r\n{payload}");
        self.ask(method, &text, Asked::Call(statuses));
    }

    /// A call about sessions that datagrams come in for.
    pub fn call_of_datagrams(&mut self, method: &'static str, target: &str, adds: bool) {
        let text = format!("{method} {target} HTTP/1.1\r\nHost: 10.9.0.1\r\n\r\n");
        let statuses: &[u16] = match adds {
            true => &[200, 201, 400, 403, 503, 507],
            false => &[200, 403, 404, 507],
        };
        self.ask(method, &text, Asked::Call(statuses));
    }

    /// The calls that let clients in.
    pub fn grant(&mut self, session: usize, knowledge: &Knowledge) {
        let session = &knowledge.sessions[session].encoded;
        let text = format!(
            "POST /api/add-token?type=http&sessionid={session} HTTP/1.1\r\nHost: 10.9.0.1\r\n\r\n"
        );
        self.ask("POST", &text, Asked::Call(&[200, 201, 403, 503, 507]));
    }

    /// A head that will never be whole.
    pub fn loris(&mut self, chance: &mut Chance) {
        let mut text = "GET /stream/a HTTP/1.1\r\nHost: h\r\n".to_owned();
        for field in 0..chance.within(0..=30) {
            text.push_str(&format!("X-{field}: {}\r\n", "y".repeat(field)));
        }
        text.truncate(chance.within(1..=text.len()));
        self.ask("GET", &text, Asked::Garbage);
    }

    pub fn wrong(&mut self, chance: &mut Chance) {
        let long = "a".repeat(70_000);
        let (method, text): (_, String) = match chance.within(0..=9) {
            0 => ("GET", "GET /stream/a HTTP/1.1\r\n\r\n".to_owned()),
            1 => ("GET", "GET /stream/a HTTP/3.0\r\nHost: h\r\n\r\n".to_owned()),
            2 => ("GET", "GET /stream/a HTTP/1.1\nHost: h\n\n".to_owned()),
            3 => ("PUT", "PUT /stream/a HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned()),
            4 => ("PUT", "PUT /stream/a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n".to_owned()),
            5 => ("GET", format!("GET /{long} HTTP/1.1\r\nHost: h\r\n\r\n")),
            6 => ("GET", format!("GET / HTTP/1.1\r\nHost: h\r\nX: {long}\r\n\r\n")),
            7 => ("POST", format!("POST /api/add-token?type=http&sessionid=a HTTP/1.1\r\nHost: h\r\nContent-Length: 70000\r\n\r\n{long}")),
            8 => ("PATCH", "PATCH /stream/a HTTP/1.1\r\nHost: h\r\n\r\n".to_owned()),
            _ => ("PUT", format!("PUT /nowhere HTTP/1.1\r\nHost: h\r\nContent-Length: 70000\r\n\r\n{long}")),
        };
        self.ask(method, &text, Asked::Wrong);
    }

    pub fn garbage(&mut self, chance: &mut Chance) {
        let count = chance.magnitude(1..=20_000);
        let is_text = chance.percent(50);
        let bytes = (0..count).map(|_| {
            let byte = chance.draw() as u8;
            if is_text {
                b"GET /PUT: \r\n1.HTP"[usize::from(byte % 17)]
            } else {
                byte
            }
        });
        self.bytes.extend(bytes);
        self.requests.push(Request {
            method: "GET",
            end: self.bytes.len(),
            asked: Asked::Garbage,
        });
    }
}

fn stream_target(session: usize, knowledge: &Knowledge, chance: &mut Chance) -> String {
    let encoded = &knowledge.sessions[session].encoded;
    if chance.percent(80) {
        format!("/stream/{encoded}")
    } else {
        format!("/stream?sessionid={encoded}")
    }
}

/// The number in a segment's name.
pub fn number_in(name: &str) -> Option<u64> {
    let (_, rest) = name.split_once('-')?;
    rest.split_once('.')?.0.parse().ok()
}
