use super::*;
use crate::relay::ConnectionId;
use crate::relay::stage::Stage;

const OPTIONS: [&str; 3] = ["--token-server=10.0.0.0/24", "--icecast", "--hold=1m"];
const AAC: &[u8] = include_bytes!("../../../../tests/media/sound.aac");

fn api(stage: &mut Stage, line: &str) -> String {
    let id = stage.client(&format!("{line} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    // A list is written in pieces.
    stage.settle();
    stage.text(id)
}

/// A running stream of AAC with a viewer, which `--hold` keeps when its source breaks.
fn stage() -> (Stage, ConnectionId) {
    let mut stage = Stage::new(&OPTIONS);
    for name in ["s", "t"] {
        let line = format!("POST /api/add-token?type=http&sessionid={name}&direction=both");
        assert!(api(&mut stage, &line).starts_with("HTTP/1.1 201 "));
    }
    let source = publish(&mut stage);
    stage.viewer("s");
    (stage, source)
}

fn publish(stage: &mut Stage) -> ConnectionId {
    let source = stage.client("SOURCE /stream/s HTTP/1.0\r\nAuthorization: Basic OnM=\r\nIce-Name: One <b>\r\nContent-Type: audio/aac\r\n\r\n");
    stage.send_media(source, AAC);
    source
}

fn set(stage: &mut Stage, title: &str) -> String {
    api(
        stage,
        &format!("POST /api/set-title?sessionid=s&title={title}"),
    )
}

/// The title and the name in `now.json`.
fn playing(stage: &mut Stage) -> (serde_json::Value, serde_json::Value) {
    let text = api(stage, "GET /stream/s/now.json");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    assert!(head.contains("Cache-Control: max-age=5"), "{head}");
    assert!(head.contains("Content-Type: application/json"), "{head}");
    let value: serde_json::Value = serde_json::from_str(body).expect("JSON");
    (value["title"].clone(), value["name"].clone())
}

/// The API sets a title. All viewers of the stream can read it.
#[test]
fn a_title_that_is_set_is_told() {
    let (mut stage, _) = stage();
    let events = stage.client("GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(playing(&mut stage), (().into(), "One <b>".into()));
    let answer = set(&mut stage, "A%20%22B%22%0d%0a%3cc%3e");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let title = "\"title\":\"A \\\"B\\\"  <c>\",\"name\":\"One <b>\"";
    assert!(answer.contains(title), "{answer}");
    assert_eq!(
        playing(&mut stage),
        ("A \"B\"  <c>".into(), "One <b>".into())
    );
    let streams = api(&mut stage, "GET /api/list-streams");
    assert!(streams.contains(title), "{streams}");
    let event = stage.text(events);
    let event = event.split("event: stream-title\n").nth(1).expect("it");
    assert!(event.contains("\"title\":\"A \\\"B\\\"  <c>\"}"), "{event}");

    for (line, status) in [
        ("POST /api/set-title?sessionid=t&title=x", 404),
        ("POST /api/set-title?sessionid=s", 400),
        ("POST /api/set-title?title=x", 400),
        ("POST /api/set-title?sessionid=s&title=x&y=z", 400),
        ("GET /api/set-title?sessionid=s&title=x", 405),
        ("GET /stream/t/now.json", 404),
        ("GET /stream/u/now.json", 403),
        ("POST /stream/s/now.json", 405),
    ] {
        let answer = api(&mut stage, line);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{line}: {answer}"
        );
    }
}

/// Of the titles within a second of a change, the newest holds when the second is over.
#[test]
fn a_title_changes_at_most_once_a_second() {
    let (mut stage, _) = stage();
    let events = stage.client("GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let told = |stage: &Stage| stage.text(events).matches("stream-title").count();
    for title in ["a", "b", "c"] {
        assert!(set(&mut stage, title).starts_with("HTTP/1.1 200 "));
    }
    assert_eq!((playing(&mut stage).0, told(&stage)), ("a".into(), 1));
    stage.wait(Duration::from_millis(999));
    assert_eq!(playing(&mut stage).0, "a");
    stage.wait(Duration::from_millis(1));
    assert_eq!((playing(&mut stage).0, told(&stage)), ("c".into(), 2));
    // The title that holds comes again: the one in between never holds.
    set(&mut stage, "d");
    set(&mut stage, "c");
    stage.wait_seconds(3);
    assert_eq!((playing(&mut stage).0, told(&stage)), ("c".into(), 2));
    // An empty title removes the title.
    set(&mut stage, "");
    assert_eq!((playing(&mut stage).0, told(&stage)), (().into(), 3));
    stage.relay.check();
}

/// A title outlives a break of the source and a hand-over, with the next one. A new stream has none.
#[test]
fn a_title_outlives_a_break_and_a_hand_over() {
    let (mut stage, source) = stage();
    set(&mut stage, "a");
    stage.lose(source);
    assert_eq!(playing(&mut stage).0, "a");
    let source = publish(&mut stage);
    assert_eq!(playing(&mut stage).0, "a");
    set(&mut stage, "b");
    set(&mut stage, "c");
    let before = playing(&mut stage);
    #[cfg(feature = "handover")]
    stage.change_hands(&OPTIONS);
    assert_eq!(playing(&mut stage), before);
    stage.wait_seconds(1);
    assert_eq!(playing(&mut stage), ("c".into(), "One <b>".into()));
    stage.relay.check();
    assert!(api(&mut stage, "DELETE /api/abort-stream?sessionid=s").starts_with("HTTP/1.1 200 "));
    stage.lose(source);
    publish(&mut stage);
    assert_eq!(playing(&mut stage), (().into(), "One <b>".into()));
}

/// A playlist of HLS has the titles within its time.
#[test]
fn a_playlist_has_the_title_that_holds() {
    let mut stage = Stage::new(&["--token-server=10.0.0.0/24"]);
    api(
        &mut stage,
        "POST /api/add-token?type=http&sessionid=s&direction=both",
    );
    let put = "PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Length: 9999999\r\n\r\n";
    let source = stage.client(put);
    stage.send_media(source, AAC);
    set(&mut stage, "a%22b%22%0a%23EXT");
    for _ in 0..30 {
        stage.wait_seconds(1);
        stage.send_media(source, AAC);
    }
    let dated = |stage: &mut Stage| {
        let list = api(stage, "GET /stream/s/index.m3u8");
        let date = list.split("#EXT-X-PROGRAM-DATE-TIME:").nth(1);
        let date = date.and_then(|rest| rest.lines().next()).expect("a date");
        let ranges = list.lines().filter(|line| line.contains("DATERANGE"));
        let ranges: Vec<String> = ranges.map(str::to_owned).collect();
        (date.to_owned(), ranges)
    };
    let range = |id: u64, date: &str, title: &str| {
        format!(
            "#EXT-X-DATERANGE:ID=\"title-{}\",CLASS=\"com.tollgate.title\",START-DATE=\"{date}\",END-ON-NEXT=YES,X-TITLE=\"{title}\"",
            id * 1_000
        )
    };
    // The title that holds at the first segment begins there.
    let (first, ranges) = dated(&mut stage);
    let began = stage.relay.ctx.calendar.at(Instant::START).unix_seconds;
    assert_eq!(ranges, [range(began, &first, "a'b' #EXT")]);
    // The next one begins in its time, and ends the one before. One that ended before the list is not
    // in it.
    let mut times = Vec::new();
    for (title, seconds) in [("b", 8), ("", 15)] {
        let now = stage.relay.ctx.calendar.at(stage.now);
        times.push((now.unix_seconds, now.to_string().replace('Z', ".000Z")));
        set(&mut stage, title);
        for _ in 0..seconds {
            stage.wait_seconds(1);
            stage.send_media(source, AAC);
        }
    }
    let (first, ranges) = dated(&mut stage);
    let expected = [
        range(times[0].0, &first, "b"),
        range(times[1].0, &times[1].1, ""),
    ];
    assert_eq!(ranges, expected);
    // Of many titles it has the newest ones.
    for second in 0..120 {
        set(&mut stage, &second.min(19).to_string());
        stage.wait_seconds(1);
        stage.send_media(source, AAC);
    }
    let (_, ranges) = dated(&mut stage);
    let last = ranges.last().expect("a title");
    assert!(
        ranges.len() <= 8 && last.contains("X-TITLE=\"19\""),
        "{ranges:?}"
    );
    stage.relay.check();
}

/// What a publisher says takes at most 2.5 KiB, however long it is. Of long titles fewer are kept.
#[test]
fn what_a_publisher_says_takes_little() {
    for (length, kept) in [(600, 1), (100, 5), (10, 8)] {
        let mut stage = Stage::new(&OPTIONS);
        let token = "POST /api/add-token?type=http&sessionid=s&direction=both";
        assert!(api(&mut stage, token).starts_with("HTTP/1.1 201 "));
        let long = "x".repeat(1_000);
        let says =
            ["Name", "Genre", "Description", "Url"].map(|of| format!("Ice-{of}: {long}\r\n"));
        stage.client(&format!(
            "SOURCE /s HTTP/1.0\r\nAuthorization: Basic OnM=\r\nUser-Agent: {long}\r\n{}\r\n",
            says.concat()
        ));
        for number in 0..12 {
            set(&mut stage, &format!("{number:x<length$}"));
            stage.wait_seconds(1);
        }
        for next in ["y", "z"] {
            set(&mut stage, &next.repeat(length));
        }
        let streams = &stage.relay.streams;
        let id = streams.running[&SessionId::parse(b"s").expect("a session")];
        let programme = &streams.streams.get(id).expect("it runs").programme;
        assert_eq!(programme.titles.len(), kept, "{length}");
        let station = serde_json::to_string(&programme.source.station).expect("JSON");
        let agent = programme.source.agent.as_str().len();
        let titles: Vec<&str> = programme
            .titles
            .iter()
            .map(|it| it.title.as_str())
            .collect();
        let bytes = titles.concat().len() + station.len() + agent;
        assert!(bytes <= 2_560, "{length}: {bytes}");
        stage.relay.check();
    }
}

/// Sources of Icecast and SHOUTcast set titles by their own requests.
#[test]
fn a_source_sets_a_title_as_with_icecast() {
    let (mut stage, source) = stage();
    let ask = |line: &str, fields: &str, stage: &mut Stage| {
        let id = stage.client(&format!("{line} HTTP/1.0\r\n{fields}\r\n"));
        let text = stage.text(id);
        stage.wait_seconds(2);
        text
    };
    // The passwords are s, t and x.
    let [s, t, x] = ["OnM=", "OnQ=", "Ong="].map(|of| format!("Authorization: Basic {of}\r\n"));
    let metadata = "/admin/metadata?mode=updinfo&mount=/any";
    for (line, fields, title) in [
        (format!("GET {metadata}&song=a%20b"), &s, "a b"),
        (format!("GET {metadata}&artist=c&title=d"), &s, "c - d"),
        (format!("GET {metadata}&title=e"), &s, "e"),
        (format!("GET {metadata}&artist=&title=g+h%2Bi"), &s, "g h+i"),
        (format!("GET {metadata}&song=gr%f6n"), &s, "grön"),
        (
            format!("GET {metadata}&song=gr%c3%b6n&charset=UTF-8"),
            &s,
            "grön",
        ),
        (
            format!("GET {metadata}&song=%f6&charset=ISO-8859-1"),
            &s,
            "ö",
        ),
        (
            "GET /admin.cgi?mode=updinfo&pass=s&song=f".to_owned(),
            &String::new(),
            "f",
        ),
    ] {
        let answer = ask(&line, fields, &mut stage);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{line}: {answer}");
        assert!(answer.contains("Content-Type: text/xml\r\n"), "{answer}");
        let done = "\r\n\r\n<?xml version=\"1.0\"?><iceresponse><message>Metadata update successful</message><return>1</return></iceresponse>";
        assert!(answer.ends_with(done), "{answer}");
        assert_eq!(playing(&mut stage).0, title, "{line}");
    }
    let none = String::new();
    for (line, fields, status) in [
        (format!("GET {metadata}&song=x"), &t, 404),
        (format!("GET {metadata}&song=x"), &x, 403),
        (format!("GET {metadata}&song=x"), &none, 401),
        (
            "GET /admin.cgi?mode=updinfo&pass=x&song=x".to_owned(),
            &none,
            403,
        ),
        (format!("GET {metadata}"), &s, 400),
        (format!("GET {metadata}&song=%f"), &s, 400),
        ("GET /admin/metadata?song=x".to_owned(), &s, 400),
        (format!("DELETE {metadata}&song=x"), &s, 405),
        (
            format!("GET {metadata}&song=x"),
            &format!("{s}Origin: http://other\r\n"),
            403,
        ),
    ] {
        let answer = ask(&line, fields, &mut stage);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{line}: {answer}"
        );
        let is_unset = answer.ends_with("<return>0</return></iceresponse>");
        assert_eq!(is_unset, status == 404, "{line}: {answer}");
        assert_eq!(playing(&mut stage).0, "f", "{line}");
    }
    assert!(
        stage
            .relay
            .streams
            .runs(&SessionId::parse(b"s").expect("a session"))
    );
    stage.lose(source);

    // Without --icecast there is no such path.
    let mut stage = Stage::new(&[]);
    let answer = ask(&format!("GET {metadata}&song=x"), &s, &mut stage);
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
    assert!(!answer.contains("iceresponse"), "{answer}");
}

/// Players of radio get a playlist with the address by which they reached the server.
#[test]
fn a_playlist_for_radios_has_the_streams_address() {
    let (mut stage, _) = stage();
    let m3u = api(&mut stage, "GET /stream/s/listen.m3u");
    assert!(m3u.contains("Content-Type: audio/x-mpegurl\r\n"), "{m3u}");
    let text = "\r\n\r\n#EXTM3U\n#EXTINF:-1,One <b>\nhttp://localhost/stream/s\n";
    assert!(m3u.ends_with(text), "{m3u}");
    let pls = api(&mut stage, "GET /stream/s/listen.pls");
    assert!(pls.contains("Content-Type: audio/x-scpls\r\n"), "{pls}");
    let text = "\r\n\r\n[playlist]\nNumberOfEntries=1\nFile1=http://localhost/stream/s\nTitle1=One <b>\nLength1=-1\nVersion=2\n";
    assert!(pls.ends_with(text), "{pls}");
    // It need not run, but the client must be allowed to watch it.
    let text = "\r\n\r\n#EXTM3U\n#EXTINF:-1,\nhttp://localhost/stream/t\n";
    assert!(api(&mut stage, "GET /stream/t/listen.m3u").ends_with(text));
    assert!(api(&mut stage, "GET /stream/u/listen.m3u").starts_with("HTTP/1.1 403 "));

    // The server may have another address for its clients, below a path.
    let mut stage = Stage::new(&["--public-url=https://radio.example/live"]);
    let m3u = api(&mut stage, "GET /stream/s/listen.m3u");
    assert!(
        m3u.ends_with("\nhttps://radio.example/live/stream/s\n"),
        "{m3u}"
    );

    // Only a known proxy can say that the client uses TLS.
    for (options, scheme) in [
        (&["--forwarded-from=10.0.0.0/8"][..], "https"),
        (&[], "http"),
    ] {
        for field in ["X-Forwarded-Proto: https\r\nX-Forwarded-For", "Forwarded"] {
            let mut stage = Stage::new(options);
            let value = match field {
                "Forwarded" => "for=192.0.2.1;proto=https",
                _ => "192.0.2.1",
            };
            let id = stage.client(&format!(
                "GET /stream/a%20b/listen.m3u HTTP/1.1\r\nHost: radio.example:8443\r\n{field}: {value}\r\n\r\n"
            ));
            let text = stage.text(id);
            let url = format!("\n{scheme}://radio.example:8443/stream/a%20b\n");
            assert!(text.ends_with(&url), "{options:?}: {text}");
        }
    }
}
