//! Reading responses as strictly as a client may: heads, and bodies by length, in chunks or until
//! close.

use serde_json::Value;

/// How a response's body came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// As its framing says: all the bytes of its length, or the final chunk.
    Complete,
    /// With the connection, which is how a body without framing ends.
    Close,
    /// With the connection, before its framing said so.
    CutShort,
}

/// Status line and fields.
#[derive(Clone, Debug)]
pub struct Head {
    pub status: u16,
    fields: Vec<(String, String)>,
}

impl Head {
    /// Reads a head, its empty line included.
    pub fn parse(bytes: &[u8]) -> Head {
        let text = std::str::from_utf8(bytes).expect("a response head in UTF-8");
        let mut lines = text
            .strip_suffix("\r\n\r\n")
            .expect("a whole head")
            .split("\r\n");
        let status_line = lines.next().expect("a status line");
        let rest = status_line
            .strip_prefix("HTTP/1.1 ")
            .unwrap_or_else(|| panic!("not a status line: {status_line:?}"));
        let (status, reason) = rest.split_once(' ').expect("a status and a reason phrase");
        assert!(!reason.is_empty(), "no reason phrase in {status_line:?}");
        let fields = lines
            .map(|line| {
                assert!(!line.contains(['\r', '\n']), "a bare CR or LF in {line:?}");
                let (name, value) = line
                    .split_once(": ")
                    .unwrap_or_else(|| panic!("not a field: {line:?}"));
                (name.to_ascii_lowercase(), value.to_owned())
            })
            .collect();
        let status = status.parse().expect("a status of three digits");
        Head { status, fields }
    }

    /// The value of a field that may come at most once.
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut values = self
            .fields
            .iter()
            .filter(|(field, _)| field.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str());
        let value = values.next();
        assert_eq!(values.next(), None, "more than one {name}");
        value
    }

    /// The methods of `Allow`, sorted.
    pub fn allowed(&self) -> Vec<&str> {
        let mut methods: Vec<&str> = self
            .field("Allow")
            .expect("Allow")
            .split(',')
            .map(str::trim)
            .collect();
        methods.sort_unstable();
        methods
    }

    /// Whether the server says that it closes the connection after this response.
    pub fn closes(&self) -> bool {
        self.field("Connection")
            .is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }
}

/// A response that has been read to its end.
#[derive(Clone, Debug)]
pub struct Response {
    pub head: Head,
    pub body: Vec<u8>,
    pub end: End,
}

impl Response {
    pub fn status(&self) -> u16 {
        self.head.status
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body of a successful API call.
    pub fn json(&self) -> Value {
        assert_eq!(self.end, End::Complete, "{}", self.text());
        assert_eq!(self.head.field("Content-Type"), Some("application/json"));
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// Checks that this is a refusal with that status, as RFC 9457 describes it, whose detail holds
    /// all of `says`.
    #[track_caller]
    pub fn assert_problem(&self, status: u16, says: &[&str]) {
        assert_eq!(self.status(), status, "{}", self.text());
        assert_eq!(self.end, End::Complete, "{}", self.text());
        assert_eq!(
            self.head.field("Content-Type"),
            Some("application/problem+json")
        );
        let problem: Value = serde_json::from_slice(&self.body).expect("a body of JSON");
        assert_eq!(problem["status"], status, "{problem}");
        assert!(
            problem["title"]
                .as_str()
                .is_some_and(|title| !title.is_empty()),
            "{problem}"
        );
        let detail = problem["detail"]
            .as_str()
            .unwrap_or_else(|| panic!("no detail: {problem}"));
        assert!(!detail.is_empty());
        for words in says {
            assert!(
                detail.contains(words),
                "nothing of {words:?} in the detail: {detail:?}"
            );
        }
    }
}

/// A response's body that is being read: what of the bytes is content, and when it is whole.
#[derive(Clone, Debug)]
pub struct Body {
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    Length(usize),
    UntilClose,
    /// Within a chunk's size line, with the part that has been read.
    Size(Vec<u8>),
    Data(usize),
    /// Before these bytes after a chunk's data, or after the last chunk.
    Expects(&'static [u8], Then),
    Complete,
}

#[derive(Clone, Copy, Debug)]
enum Then {
    Size,
    Complete,
}

impl Body {
    /// The body that belongs to `head`, the answer to `method`.
    pub fn new(method: &str, head: &Head) -> Body {
        let state = if method == "HEAD" || head.status == 204 || head.status / 100 == 1 {
            State::Complete
        } else if let Some(coding) = head.field("Transfer-Encoding") {
            assert_eq!(coding, "chunked");
            assert_eq!(
                head.field("Content-Length"),
                None,
                "both framings in one response"
            );
            State::Size(Vec::new())
        } else if let Some(length) = head.field("Content-Length") {
            State::Length(length.parse().expect("a length"))
        } else {
            State::UntilClose
        };
        let mut body = Body { state };
        body.settle();
        body
    }

    /// Takes from the front of `input` what belongs to this body, and appends its content to
    /// `content`; says how much it took.
    pub fn read(&mut self, input: &[u8], content: &mut Vec<u8>) -> usize {
        let mut rest = input;
        while !rest.is_empty() && !self.is_complete() {
            rest = self.step(rest, content);
            self.settle();
        }
        input.len() - rest.len()
    }

    pub fn is_complete(&self) -> bool {
        matches!(self.state, State::Complete)
    }

    /// What it means if the connection ends now.
    pub fn end(&self) -> End {
        match self.state {
            State::Complete => End::Complete,
            State::UntilClose => End::Close,
            State::Length(_) | State::Size(_) | State::Data(_) | State::Expects(..) => {
                End::CutShort
            }
        }
    }

    fn step<'a>(&mut self, input: &'a [u8], content: &mut Vec<u8>) -> &'a [u8] {
        match &mut self.state {
            State::Complete => input,
            State::UntilClose => {
                content.extend_from_slice(input);
                &[]
            }
            State::Length(left) | State::Data(left) => {
                let (taken, rest) = input.split_at(input.len().min(*left));
                content.extend_from_slice(taken);
                *left -= taken.len();
                rest
            }
            State::Size(line) => {
                line.push(input[0]);
                if line.ends_with(b"\n") {
                    self.state = chunk_of(line);
                }
                &input[1..]
            }
            State::Expects(bytes, then) => {
                assert_eq!(input[0], bytes[0], "a chunk does not end with CRLF");
                self.state = match (&bytes[1..], then) {
                    (b"", Then::Size) => State::Size(Vec::new()),
                    (b"", Then::Complete) => State::Complete,
                    (left, then) => State::Expects(left, *then),
                };
                &input[1..]
            }
        }
    }

    fn settle(&mut self) {
        match self.state {
            State::Length(0) => self.state = State::Complete,
            State::Data(0) => self.state = State::Expects(b"\r\n", Then::Size),
            _ => {}
        }
    }
}

fn chunk_of(line: &[u8]) -> State {
    let text = std::str::from_utf8(line).expect("a chunk's size line in ASCII");
    let digits = text
        .strip_suffix("\r\n")
        .unwrap_or_else(|| panic!("a size line without CRLF: {text:?}"));
    let size = usize::from_str_radix(digits, 16)
        .unwrap_or_else(|_| panic!("not a chunk's size: {text:?}"));
    match size {
        0 => State::Expects(b"\r\n", Then::Complete),
        size => State::Data(size),
    }
}
