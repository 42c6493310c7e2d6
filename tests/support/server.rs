//! The server, as the process that a user starts.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::Value;

use super::client::request;
use super::process;
use super::response::Response;
use super::until;

/// The program that the tests start: `TESTS_PROGRAM`, such as the one that ships, or that which
/// was built with them.
pub fn program() -> String {
    let given = std::env::var("TESTS_PROGRAM").ok();
    given.unwrap_or_else(|| env!("CARGO_BIN_EXE_tollgate").to_owned())
}

/// The hosts that may call the API, in most tests.
pub const LOOPBACK: &str = "--token-server=127.0.0.1/32";

/// A server that runs, and is killed when the test is over.
pub struct Server {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
    /// The listeners, in the order in which they were asked for.
    pub listeners: Vec<SocketAddr>,
    pub rtp: Option<SocketAddr>,
    pub rtmp: Option<SocketAddr>,
    is_over: bool,
}

/// Time limits of slow clients. They are long unless a test sets them, so a slow machine fails no
/// test.
const PATIENT: [(&str, &str); 5] = [
    ("TOLLGATE_HEAD_TIME", "600"),
    ("TOLLGATE_ORIGIN_TIME", "600"),
    ("TOLLGATE_SOURCE_IDLE_TIME", "600"),
    ("TOLLGATE_VIEWER_STALL_TIME", "600"),
    ("TOLLGATE_KEEP_ALIVE_TIME", "600"),
];

/// The program, with its output held back.
pub fn command(options: &[&str]) -> Command {
    let mut command = Command::new(program());
    command
        .args(options)
        .envs(PATIENT)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

impl Server {
    /// Starts the server, on a free port of 127.0.0.1 and without RTP where `options` say nothing
    /// of these.
    #[track_caller]
    pub fn start(options: &[&str]) -> Server {
        Server::run(command(&[]), options)
    }

    /// A server whose API this host may call, and which streams nothing without a token.
    #[track_caller]
    pub fn gated(options: &[&str]) -> Server {
        Server::start(&[&[LOOPBACK], options].concat())
    }

    /// Starts it with `descriptors` to spend.
    #[track_caller]
    pub fn start_with_descriptors(descriptors: u32, options: &[&str]) -> Server {
        Server::start_after(&format!("ulimit -n {descriptors}"), options)
    }

    /// Starts it where a shell has done something before.
    #[track_caller]
    pub fn start_after(script: &str, options: &[&str]) -> Server {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("{script}; exec \"$0\" \"$@\""), &program()]);
        shell
            .envs(PATIENT)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Server::run(shell, options)
    }

    #[track_caller]
    fn run(mut command: Command, options: &[&str]) -> Server {
        let has = |name: &str| options.iter().any(|option| option.starts_with(name));
        command.args(options);
        if !has("--listen") {
            command.arg("--listen=127.0.0.1:0");
        }
        if !has("--rtp") {
            command.arg("--rtp=off");
        }
        let mut child = command.spawn().expect("the program starts");
        let lines = Arc::new(Mutex::new(Vec::new()));
        let stderr = BufReader::new(child.stderr.take().expect("stderr is piped"));
        let sink = Arc::clone(&lines);
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                sink.lock().expect("no reader panics").push(line);
            }
        });
        let mut server = Server {
            child,
            lines,
            listeners: Vec::new(),
            rtp: None,
            rtmp: None,
            is_over: false,
        };
        let listeners = options
            .iter()
            .filter(|option| option.starts_with("--listen") && !option.contains("unix:"))
            .count()
            .max(1);
        let has_rtp = has("--token-server") && has("--rtp") && !has("--rtp=off");
        server.await_sockets(listeners, has_rtp, has("--rtmp"));
        server
    }

    #[track_caller]
    fn await_sockets(&mut self, listeners: usize, has_rtp: bool, has_rtmp: bool) {
        let mut ended = None;
        until("the server listens", || {
            let lines = self.stderr();
            let listening = |kind: &str| -> Vec<SocketAddr> {
                // As text, or as JSON.
                let behind = |line: &'_ String| Some(line.split_once(kind)?.1.to_owned());
                let addresses: Vec<String> = lines.iter().filter_map(behind).collect();
                addresses
                    .iter()
                    .map(|address| address.trim_end_matches("\"}"))
                    .filter(|address| !address.starts_with("unix:"))
                    .map(|address| address.parse().expect("an address and a port"))
                    .collect()
            };
            self.listeners = listening("listening http ");
            self.rtp = listening("listening rtp ").first().copied();
            self.rtmp = listening("listening rtmp ").first().copied();
            let has_all = self.rtp.is_some() == has_rtp && self.rtmp.is_some() == has_rtmp;
            if self.listeners.len() == listeners && has_all {
                return Some(());
            }
            // A server may listen, hand over and end between two rounds.
            if let Some(status) = ended {
                self.is_over = true;
                panic!("the server ended with {status}: {lines:?}");
            }
            ended = self.child.try_wait().ok().flatten();
            None
        });
    }

    /// The first listener.
    pub fn address(&self) -> SocketAddr {
        self.listeners[0]
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has written to stderr so far.
    pub fn stderr(&self) -> Vec<String> {
        self.lines.lock().expect("no reader panics").clone()
    }

    /// One request on a connection of its own.
    #[track_caller]
    pub fn request(&self, method: &str, target: &str) -> Response {
        request(self.address(), method, target, &[])
    }

    /// Gives the session an `http` token.
    #[track_caller]
    pub fn admit(&self, session: &str) {
        let response = self.request(
            "POST",
            &format!("/api/add-token?type=http&sessionid={session}"),
        );
        assert_eq!(response.status(), 201, "{}", response.text());
    }

    /// Adds an `http` token, new or changed, as this query says.
    #[track_caller]
    pub fn add_token(&self, query: &str) {
        let response = self.request("POST", &format!("/api/add-token?type=http&{query}"));
        assert!(
            matches!(response.status(), 200 | 201),
            "{}",
            response.text()
        );
    }

    #[track_caller]
    pub fn tokens(&self) -> Vec<Value> {
        self.list("/api/list-tokens")
    }

    #[track_caller]
    pub fn streams(&self) -> Vec<Value> {
        self.list("/api/list-streams")
    }

    #[track_caller]
    fn list(&self, target: &str) -> Vec<Value> {
        let response = self.request("GET", target);
        assert_eq!(response.status(), 200, "{}", response.text());
        response.json().as_array().expect("an array").clone()
    }

    /// The stream of a session that has a source, as list-streams shows it.
    #[track_caller]
    pub fn stream(&self, session: &str) -> Option<Value> {
        self.streams()
            .into_iter()
            .find(|stream| stream["sessionid"] == session && !stream["source"].is_null())
    }

    /// What still goes out of a session's streams whose source is gone.
    #[track_caller]
    pub fn draining(&self, session: &str) -> Vec<Value> {
        let mut streams = self.streams();
        streams.retain(|stream| stream["sessionid"] == session && stream["source"].is_null());
        streams
    }

    /// What `/metrics` says of this, labels included.
    #[track_caller]
    pub fn figure(&self, name: &str) -> u64 {
        let metrics = self.request("GET", "/metrics").text();
        let mut lines = metrics.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.expect(name).parse().expect("a number")
    }

    #[track_caller]
    pub fn await_figure(&self, name: &str, value: u64) {
        until(&format!("{name} is {value}"), || {
            (self.figure(name) == value).then_some(())
        });
    }

    /// Waits until list-streams shows `count` viewers.
    #[track_caller]
    pub fn await_viewers(&self, session: &str, viewers: usize) {
        until(&format!("{session} has {viewers} viewers"), || {
            let stream = self.stream(session)?;
            (stream["viewers"] == viewers).then_some(())
        });
    }

    /// Waits until the session has no source.
    #[track_caller]
    pub fn await_end_of_stream(&self, session: &str) {
        until(&format!("the stream {session} is over"), || {
            self.stream(session).is_none().then_some(())
        });
    }

    /// Waits for a line on stderr that holds all of `words`.
    #[track_caller]
    pub fn await_line(&self, words: &[&str]) -> String {
        until(&format!("a line with {words:?} on stderr"), || {
            let lines = self.stderr();
            lines
                .into_iter()
                .find(|line| words.iter().all(|word| line.contains(word)))
        })
    }

    /// Sends a signal, such as `TERM`.
    #[track_caller]
    pub fn signal(&self, name: &str) {
        process::signal(self.pid(), name);
    }

    /// Does something while the server stands still: to it all of that comes at once, however long
    /// it takes here.
    #[track_caller]
    pub fn all_at_once<T>(&self, act: impl FnOnce() -> T) -> T {
        self.signal("STOP");
        until("the server stands still", || {
            process::is_stopped(self.pid()).then_some(())
        });
        let done = act();
        self.signal("CONT");
        done
    }

    /// It has been killed, and that was meant.
    pub fn forget(mut self) {
        let _ = self.child.wait();
        self.is_over = true;
    }

    /// Waits until the process ends by itself.
    #[track_caller]
    pub fn exit_status(&mut self) -> ExitStatus {
        let status = until("the server exits", || {
            self.child.try_wait().expect("a child of this process")
        });
        self.is_over = true;
        status
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let has_ended = !matches!(self.child.try_wait(), Ok(None));
        let _ = self.child.kill();
        let _ = self.child.wait();
        let lines = self.stderr();
        if std::thread::panicking() {
            let tail = &lines[lines.len().saturating_sub(20)..];
            eprintln!("the server's last words: {tail:#?}");
            return;
        }
        // Whatever a test was about: nothing that it sent may have brought the server down.
        assert!(
            self.is_over || !has_ended,
            "the server ended by itself: {lines:?}"
        );
        assert!(
            !lines.iter().any(|line| line.contains("panicked")),
            "{lines:?}"
        );
    }
}

/// A gated server that admits the session `demo`.
pub fn demo() -> Server {
    let server = Server::gated(&[]);
    server.admit("demo");
    server
}
