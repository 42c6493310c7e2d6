//! The command line, the start and the end of the server.

use crate::support;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::process::Output;

use crate::support::client::Client;
use crate::support::media::media;
use crate::support::server::{Server, command};
use crate::support::streaming::{Source, Viewer};
use crate::support::{free_address, until};
use tollgate::config::FEATURES;

/// Runs the program to its end. Only for arguments with which it does not stay.
fn run(options: &[&str]) -> Output {
    let mut child = command(options).spawn().expect("the program starts");
    until(&format!("the program ends with {options:?}"), || {
        child.try_wait().expect("a child")
    });
    child.wait_with_output().expect("its output")
}

/// Checks that these arguments get status 2 and one line on stderr that holds all of `says`.
#[track_caller]
fn assert_bad(options: &[&str], says: &[&str]) {
    let output = run(options);
    let line = only_line(&output);
    assert_eq!(output.status.code(), Some(2), "{options:?}: {line}");
    for words in says {
        assert!(
            line.contains(words),
            "{options:?}: nothing of {words:?} in {line:?}"
        );
    }
}

#[track_caller]
fn only_line(output: &Output) -> String {
    assert!(
        output.stdout.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
    let text = String::from_utf8(output.stderr.clone()).expect("UTF-8");
    assert_eq!(text.lines().count(), 1, "not one line: {text:?}");
    text
}

/// So none has a default that somebody forgets to change.
#[test]
fn no_option_and_no_call_has_a_password() {
    let help = String::from_utf8(run(&["--help"]).stdout).expect("UTF-8");
    let words = help.split_whitespace().map(str::to_owned);
    let options = words.filter(|word| word.starts_with("--"));
    let calls = Server::gated(&[])
        .request("GET", "/api/openapi.json")
        .json();
    let parameters = calls["components"]["parameters"].as_object();
    let parameters = parameters.expect("its parameters").values();
    let names = parameters.map(|parameter| parameter["name"].as_str().expect("a name").to_owned());
    let names: Vec<String> = options.chain(names).collect();
    for there in ["--token-server", "sessionid"] {
        assert!(names.iter().any(|name| name.contains(there)), "{names:?}");
    }
    for secret in ["pass", "secret", "user", "credential"] {
        assert!(!names.iter().any(|name| name.contains(secret)), "{names:?}");
    }
}

#[test]
fn help_goes_to_stdout_and_names_every_option_of_the_contract() {
    let output = run(&["--help"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty());
    let help = String::from_utf8(output.stdout).expect("UTF-8");
    for option in ["--token-server", "--listen", "--rtp", "--help", "--version"] {
        assert!(help.contains(option), "no {option} in the help");
    }
}

#[test]
fn version_goes_to_stdout() {
    let output = run(&["--version"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty());
    let version = String::from_utf8(output.stdout).expect("UTF-8");
    let named = format!("tollgate {}", env!("CARGO_PKG_VERSION"));
    let features = version.strip_prefix(&named).expect(&version);
    for feature in FEATURES {
        let mut words = features.split([' ', ',', '\n']);
        assert_eq!(
            words.any(|word| word == feature.name),
            feature.is_in,
            "{version}"
        );
    }
}

#[test]
fn a_bad_argument_gets_one_line_that_names_it_and_status_2() {
    assert_bad(&["--port=8000"], &["--listen was probably meant"]);
    assert_bad(&["--tls"], &["a proxy in front", "docs/proxies.md"]);
    for (file, why) in [
        ("/nowhere/x/tokens", "no folder /nowhere/x"),
        ("/", "'/' is a folder"),
    ] {
        let file = format!("--token-file={file}");
        let why = match cfg!(feature = "token-file") {
            true => why,
            false => "without `token-file`",
        };
        assert_bad(
            &["--check", "--token-server=::1", &file],
            &["--token-file", why],
        );
    }
    assert_bad(&["stray"], &["stray"]);
    assert_bad(&["--listen"], &["--listen"]);
    assert_bad(&["--listen=8000"], &["--listen", "8000"]);
    assert_bad(&["--rtp=off", "--rtp=off"], &["--rtp"]);
    assert_bad(&["--help=me"], &["--help"]);
}

/// Misspelt and passed over, it would have left the relay open to everyone.
#[test]
fn a_misspelt_variable_gets_one_line_that_names_it_and_status_2() {
    let mut command = command(&["--listen=127.0.0.1:0", "--rtp=off"]);
    let mut child = command
        .env("TOLLGATE_TOKENSERVER", "127.0.0.1")
        .spawn()
        .expect("the program starts");
    let mut said = String::new();
    let mut stderr = BufReader::new(child.stderr.take().expect("it is piped"));
    stderr.read_line(&mut said).expect("a line");
    // One that starts says something else, and has to be ended.
    if !said.starts_with("tollgate: ") {
        child.kill().expect("it runs");
    }
    let status = child.wait().expect("a child");
    assert_eq!(status.code(), Some(2), "{said}");
    let words = ["'TOLLGATE_TOKENSERVER'", "TOLLGATE_TOKEN_SERVER"];
    assert!(words.iter().all(|word| said.contains(word)), "{said}");
}

#[test]
fn control_characters_of_an_argument_do_not_reach_the_terminal() {
    assert_bad(&["--listen=\u{1b}[31mred\nsecond line"], &["--listen"]);
    let output = run(&["--\u{1b}[31m\n"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(!only_line(&output).contains('\u{1b}'));
}

#[test]
fn masks_are_prefixes_or_dotted_and_a_bare_address_is_one_host() {
    for (subnet, status) in [
        ("127.0.0.0/255.0.0.0", 200),
        ("127.0.0.1", 200),
        ("127.0.0.2/31", 403),
    ] {
        let server = Server::start(&[&format!("--token-server={subnet}")]);
        assert_eq!(
            server.request("GET", "/api/list-tokens").status(),
            status,
            "{subnet}"
        );
    }
}

#[test]
fn a_listener_that_cannot_be_bound_gets_one_line_and_status_1() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("its address").to_string();
    let output = run(&[
        &format!("--listen={address}"),
        "--token-server=127.0.0.1/32",
        "--rtp=off",
    ]);
    assert_eq!(output.status.code(), Some(1));
    let line = only_line(&output);
    assert!(
        line.contains(&address) && line.contains("--listen="),
        "{line}"
    );
}

#[test]
fn each_listener_is_told_with_the_address_really_bound_and_serves() {
    let server = Server::start(&["--listen=127.0.0.1:0", "--listen=127.0.0.2:0"]);
    assert_eq!(server.listeners.len(), 2);
    for address in &server.listeners {
        assert_ne!(address.port(), 0);
        Client::connect(*address).assert_usable();
    }
}

#[test]
fn the_rtp_socket_is_bound_with_a_token_server_only() {
    let gated = Server::gated(&["--rtp=127.0.0.1:0"]);
    assert_ne!(gated.rtp.expect("a line `listening rtp`").port(), 0);
    let open = Server::start(&["--rtp=127.0.0.1:0"]);
    Client::connect(open.address()).assert_usable();
    let lines = open.stderr();
    assert!(
        !lines.iter().any(|line| line.starts_with("listening rtp")),
        "{lines:?}"
    );
}

#[test]
fn a_server_without_a_gate_says_so_at_its_start_and_streams_for_anyone() {
    let open = Server::start(&[]);
    open.await_line(&["warn", "--token-server"]);
    let mut source = Source::open(open.address(), "/stream/anything");
    source.send(b"first");
    let mut viewer = Viewer::ask(open.address(), "/stream/anything");
    viewer.head();
    source.send(b"second");
    assert_eq!(source.finish().status(), 200);
    let (content, _) = viewer.read_to_end();
    assert!(content.ends_with(b"second"));

    let gated = Server::gated(&[]);
    Client::connect(gated.address()).assert_usable();
    let lines = gated.stderr();
    assert!(!lines.iter().any(|line| line.contains("warn")), "{lines:?}");
}

/// Each line is an object with the keys of the text form.
#[test]
fn the_log_is_json_where_it_is_asked_for() {
    let server = Server::gated(&["--log-format=json"]);
    server.admit("demo");
    server.admit("key&for=show&direction=out");
    let mut source = Source::open(server.address(), "/stream/demo");
    source.send(b"media");
    assert_eq!(source.finish().status(), 200);
    let revoked = server.request("DELETE", "/api/revoke-token?sessionid=key");
    assert_eq!(revoked.status(), 200);
    server.await_line(&["token-revoked"]);
    let lines: Vec<serde_json::Value> = server
        .stderr()
        .iter()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}")))
        .collect();
    let of = |name: &str| lines.iter().find(|line| line["event"] == name).expect(name);
    for (event, keys) in [
        ("token-added", &["tuples"][..]),
        ("stream-begins", &["source"]),
        ("stream-ends", &["reason", "bytes_received", "skips"]),
        ("token-revoked", &["for"]),
    ] {
        let line = of(event);
        for key in [&["time", "level", "session"], keys].concat() {
            assert!(!line[key].is_null(), "{key}: {line}");
        }
    }
    assert_eq!(of("stream-ends")["bytes_received"], 5);
    assert_eq!(of("token-added")["session"], of("stream-begins")["session"]);
    let listening = |line: &serde_json::Value| {
        let words = line["message"].as_str().unwrap_or_default();
        words.starts_with("listening http ") && line["time"].is_string()
    };
    assert!(lines.iter().any(listening), "{lines:?}");
}

#[test]
fn told_to_end_it_gives_viewers_what_is_buffered_and_a_clean_end() {
    for signal in ["TERM", "INT"] {
        let mut server = Server::gated(&[]);
        server.admit("demo");
        let mut source = Source::open(server.address(), "/stream/demo");
        let mut viewer = Viewer::ask(server.address(), "/stream/demo");
        server.await_viewers("demo", 1);
        // More than the sockets between take while nobody reads: the rest is in the stream's buffer
        // when the signal comes.
        let media = media(1, 6 << 20);
        source.send(&media);
        until("all of it has arrived", || {
            (server.stream("demo")?["bytes_received"] == media.len()).then_some(())
        });
        let mut idle = Client::connect(server.address());
        idle.assert_usable();
        server.signal(signal);
        viewer.assert_rest(&media);
        idle.rest();
        source.into_client().rest();
        assert_eq!(server.exit_status().code(), Some(0), "{signal}");
    }
}

/// Sends SIGTERM to a server. Returns it with its source, and with a viewer that keeps it for a
/// while.
fn told_to_end() -> (Server, Source, Viewer) {
    let server = Server::gated(&[]);
    server.admit("demo");
    let mut source = Source::open(server.address(), "/stream/demo");
    let viewer = Viewer::ask(server.address(), "/stream/demo");
    server.await_viewers("demo", 1);
    source.send(&media(1, 7 << 20));
    until("there is enough to keep the server", || {
        (server.stream("demo")?["bytes_received"] == 7 << 20).then_some(())
    });
    server.signal("TERM");
    (server, source, viewer)
}

#[test]
fn told_to_end_it_takes_no_new_clients() {
    let (mut server, source, stalled) = told_to_end();
    // The source's end shows that the signal has come; the viewer, who reads nothing, keeps the
    // server for a while.
    source.into_client().rest();
    let refused = until("nobody is let in", || {
        match std::net::TcpStream::connect(server.address()) {
            Err(_) => Some(true),
            Ok(_) => None,
        }
    });
    assert!(refused);
    drop(stalled);
    assert_eq!(server.exit_status().code(), Some(0));
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let (mut server, source, mut viewer) = told_to_end();
    source.into_client().rest();
    server.signal("TERM");
    server.exit_status();
    // It had more to send, and did not wait for who would take it.
    let (content, end) = viewer.read_to_end();
    assert!(content.len() < 7 << 20);
    assert_eq!(end, support::response::End::CutShort);
}

/// A terminal that closes, and tools that mean something by the other two.
#[test]
fn signals_that_are_for_others_end_nothing() {
    let mut server = Server::gated(&["--log=debug"]);
    server.admit("demo");
    let mut source = Source::open(server.address(), "/stream/demo");
    let mut viewer = Viewer::ask(server.address(), "/stream/demo");
    server.await_viewers("demo", 1);
    let said = server.stderr().len();
    for signal in ["HUP", "USR1", "USR2", "PIPE", "XFSZ", "TTOU"] {
        for _ in 0..3 {
            server.signal(signal);
            Client::connect(server.address()).assert_usable();
        }
    }
    source.send(b"media");
    assert_eq!(source.finish().status(), 200);
    viewer.assert_rest(b"media");
    let lines = server.stderr().split_off(said);
    assert!(
        !lines.iter().any(|line| line.contains("ending")),
        "{lines:?}"
    );
    server.signal("TERM");
    assert_eq!(server.exit_status().code(), Some(0));
}

#[test]
fn an_idle_server_ends_at_once_with_status_0() {
    let mut server = Server::start(&[]);
    server.signal("TERM");
    assert_eq!(server.exit_status().code(), Some(0));
}

/// By TCP, by a socket in the file system, and from a host that introduces whom it speaks for.
#[test]
fn a_server_that_runs_is_found_well_and_another_is_not() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let path = folder.join("health.socket");
    let _ = std::fs::remove_file(&path);
    let unix = format!("--listen=unix:{}", path.display());
    let server = Server::start(&["--listen=127.0.0.1:0", &unix, "--proxy-protocol=127.0.0.1"]);
    let listen = format!("--listen={}", server.address());
    for listener in [&listen, &unix] {
        let asked = run(&[listener, "--proxy-protocol=127.0.0.1", "--health"]);
        assert_eq!(asked.status.code(), Some(0), "{listener}: {asked:?}");
        assert!(asked.stdout.is_empty() && asked.stderr.is_empty());
    }
    // Something else listens there, and nothing at all.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let closed = free_address();
    for address in [silent.local_addr().expect("its address"), closed] {
        let asked = run(&[&format!("--listen={address}"), "--health"]);
        assert_eq!(asked.status.code(), Some(1), "{asked:?}");
        assert!(only_line(&asked).contains(&address.to_string()));
    }
}

/// Every option that makes a socket in the file system: a file that is there already is not the
/// server's, and it may be anything.
#[test]
fn only_a_socket_that_nobody_listens_at_is_removed() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("sockets");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(folder.join("folder")).expect("a folder");
    let path = |name: &str| folder.join(name);
    let read = |name: &str| std::fs::read_to_string(path(name)).expect("it is there still");
    std::fs::write(path("file"), "precious").expect("a file");
    drop(UnixListener::bind(path("abandoned")).expect("a socket"));
    for (link, to) in [
        ("link", "file"),
        ("to-abandoned", "abandoned"),
        ("to-nothing", "none"),
    ] {
        std::os::unix::fs::symlink(path(to), path(link)).expect("a link");
    }
    let listening = UnixListener::bind(path("listening")).expect("a socket");
    let options: &[&str] = match cfg!(feature = "handover") {
        true => &["--listen", "--handover"],
        false => &["--listen"],
    };
    for option in options {
        for name in [
            "file",
            "link",
            "to-abandoned",
            "to-nothing",
            "folder",
            "listening",
        ] {
            if (*option, name) == ("--handover", "listening") {
                continue;
            }
            let option = format!("{option}=unix:{}", path(name).display());
            let output = run(&["--listen=127.0.0.1:0", "--rtp=off", &option]);
            assert_eq!(output.status.code(), Some(1), "{option}: {output:?}");
            assert!(std::fs::symlink_metadata(path(name)).is_ok(), "{option}");
        }
        assert_eq!(
            (read("file"), read("link")),
            ("precious".into(), "precious".into())
        );
        assert!(path("abandoned").exists() && path("folder").is_dir());
        // One that was killed has left a socket, and the next one takes its place.
        let option = format!("{option}=unix:{}", path("left").display());
        let start = || Server::start(&["--listen=127.0.0.1:0", &option]);
        drop(start());
        assert!(path("left").exists(), "it was killed");
        let mut server = start();
        // What somebody has put in the place of the socket meanwhile stays.
        std::fs::remove_file(path("left")).expect("it is there");
        std::fs::write(path("left"), "other").expect("a file");
        server.signal("TERM");
        assert_eq!(server.exit_status().code(), Some(0));
        assert_eq!(read("left"), "other");
        std::fs::remove_file(path("left")).expect("it is there");
        let mut server = start();
        server.signal("TERM");
        assert_eq!(server.exit_status().code(), Some(0));
        assert!(!path("left").exists(), "it goes with its server");
    }
    drop(listening);
}

#[test]
fn what_a_client_sends_begins_no_line_of_the_log() {
    let server = Server::gated(&["--log=debug"]);
    let session = "x%0d%0alistening%20http%20127.0.0.1:1";
    let target = format!("/api/add-token?type=http&sessionid={session}");
    server.request("POST", &target).assert_problem(400, &[]);
    let name = "listening http 127.0.0.1:1";
    let mut client = Client::connect(server.address());
    client.send(format!(
        "GET /{name} HTTP/1.1\r\nHost: h\r\nUser-Agent: \u{9b}31m\r\n\r\n"
    ));
    client.response("GET");
    server.admit("secret-session");
    let source = Source::open(server.address(), "/stream/secret-session");
    assert_eq!(source.finish().status(), 200);
    server.await_end_of_stream("secret-session");
    let lines = server.stderr();
    let told = lines
        .iter()
        .filter(|line| line.starts_with("listening http"));
    assert_eq!(told.count(), 1, "{lines:?}");
    for line in &lines {
        assert!(!line.chars().any(char::is_control), "{line:?}");
        assert!(
            !line.contains("secret-session"),
            "a sessionid is a secret: {line:?}"
        );
    }
}

/// An event has its time, unless stderr is systemd's journal, which has one of its own; what a
/// program may read at the start is as it was.
#[test]
fn events_have_a_time_where_nobody_else_keeps_it() {
    use std::os::unix::fs::MetadataExt;
    for (name, is_journal, has_time) in [
        ("plain", None, true),
        ("journal", Some(true), false),
        ("others-journal", Some(false), true),
    ] {
        let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("times-{name}"));
        let file = std::fs::File::create(&path).expect("a file");
        let stderr = file.metadata().expect("it is there");
        let mut command = command(&["--listen=127.0.0.1:0"]);
        command.env_remove("JOURNAL_STREAM").stderr(file);
        if let Some(is_its) = is_journal {
            let inode = stderr.ino() + u64::from(!is_its);
            command.env("JOURNAL_STREAM", format!("{}:{inode}", stderr.dev()));
        }
        let mut child = command.spawn().expect("the program starts");
        let text = until("it listens", || {
            let text = std::fs::read_to_string(&path).expect("the file");
            text.contains("listening http").then_some(text)
        });
        child.kill().expect("it runs");
        child.wait().expect("its end");
        let event = text.lines().find(|line| line.contains("event=open"));
        let (time, rest) = event
            .and_then(|line| line.split_once(' '))
            .expect("an event");
        assert_eq!(
            time.starts_with("time=20") && time.ends_with('Z'),
            has_time,
            "{name}: {text}"
        );
        assert_eq!(
            rest.starts_with("level=warn event=open"),
            has_time,
            "{name}: {text}"
        );
        assert!(
            text.lines()
                .any(|line| line.starts_with("listening http 127.0.0.1:"))
        );
    }
}
