use crate::relay::ConnectionId;
use crate::relay::stage::Stage;

const OPTIONS: [&str; 3] = ["--token-server=10.0.0.0/24", "--icecast", "--hold=1m"];
const MP3: &[u8] = include_bytes!("../../../../tests/media/sound.mp3");

fn ask(stage: &mut Stage, line: &str, fields: &str) -> String {
    let id = stage.client(&format!(
        "{line} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"
    ));
    stage.text(id)
}

fn body(stage: &mut Stage, path: &str) -> String {
    let text = ask(stage, &format!("GET {path}"), "");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200 "), "{text}");
    assert!(head.contains("Cache-Control: no-store"), "{head}");
    body.to_owned()
}

/// A source for each of these sessions.
fn stage(sessions: &[&str]) -> (Stage, Vec<ConnectionId>) {
    let mut stage = Stage::new(&OPTIONS);
    let publish = |name: &&str, stage: &mut Stage| {
        let name = name.replace('&', "%26");
        let add = format!("POST /api/add-token?type=http&sessionid={name}&direction=both");
        assert!(ask(stage, &add, "").starts_with("HTTP/1.1 201 "));
        let fields = "Ice-Name: <One> & \"more\"\r\nIce-Genre: It's jazz\r\nIce-Bitrate: 128\r\nContent-Type: audio/mpeg\r\nContent-Length: 999999\r\n";
        let source = stage.client(&format!(
            "PUT /stream/{name} HTTP/1.1\r\nHost: h\r\n{fields}\r\n"
        ));
        stage.send_media(source, MP3);
        source
    };
    let sources = sessions
        .iter()
        .map(|name| publish(name, &mut stage))
        .collect();
    (stage, sources)
}

/// The list of streams in JSON: nothing, one object, or a list.
#[test]
fn streams_are_listed_as_icecast_does_in_json() {
    let (mut none, _) = stage(&[]);
    assert_eq!(body(&mut none, "/status-json.xsl"), "{\"icestats\":{}}");
    let (mut one, sources) = stage(&["s"]);
    let first = one.viewer("s");
    one.viewer("s");
    one.lose(first);
    ask(
        &mut one,
        "POST /api/set-title?sessionid=s&title=%3Ca%3E%20%22b%22",
        "",
    );
    let seen: serde_json::Value =
        serde_json::from_str(&body(&mut one, "/status-json.xsl")).expect("JSON");
    let start = seen["icestats"]["source"]["stream_start_iso8601"].clone();
    assert!(
        start.as_str().expect("a date").ends_with("+0000"),
        "{start}"
    );
    let expected = serde_json::json!({"icestats": {"source": {
        "bitrate": 128, "genre": "It's jazz", "listener_peak": 2, "listeners": 1,
        "listenurl": "http://localhost/stream/s", "server_name": "<One> & \"more\"",
        "server_type": "audio/mpeg", "stream_start_iso8601": start, "title": "<a> \"b\"",
    }}});
    assert_eq!(seen, expected);
    // A stream that waits for its next source is still listed. One that is over is not.
    one.lose(sources[0]);
    assert!(body(&mut one, "/status-json.xsl").contains("listenurl"));
    ask(&mut one, "DELETE /api/abort-stream?sessionid=s", "");
    assert_eq!(body(&mut one, "/status-json.xsl"), "{\"icestats\":{}}");
    let (mut two, _) = stage(&["s", "t&u"]);
    let seen: serde_json::Value =
        serde_json::from_str(&body(&mut two, "/status-json.xsl")).expect("JSON");
    let sources = seen["icestats"]["source"].as_array().expect("a list");
    let urls: Vec<_> = sources
        .iter()
        .map(|source| source["listenurl"].as_str())
        .collect();
    assert_eq!(
        urls,
        [
            Some("http://localhost/stream/s"),
            Some("http://localhost/stream/t%26u")
        ]
    );
    let of_one = body(&mut two, "/status-json.xsl?mount=/s");
    assert!(
        of_one.contains("\"source\":{") && of_one.contains("/stream/s\""),
        "{of_one}"
    );
}

/// The list of streams in XML has the same fields. Each value is escaped.
#[test]
fn streams_are_listed_as_icecast_does_in_xml() {
    let (mut stage, _) = stage(&["s", "t&u"]);
    ask(
        &mut stage,
        "POST /api/set-title?sessionid=s&title=%3Ca%3E%20%22b%22",
        "",
    );
    let seen = body(&mut stage, "/admin/stats");
    let head = "<?xml version=\"1.0\"?>\n<icestats><source mount=\"/s\"><bitrate>128</bitrate><genre>It's jazz</genre><listener_peak>0</listener_peak><listeners>0</listeners><listenurl>http://localhost/stream/s</listenurl><server_name>&lt;One&gt; &amp; &quot;more&quot;</server_name><server_type>audio/mpeg</server_type><stream_start_iso8601>";
    assert!(seen.starts_with(head), "{seen}");
    let rest = "</stream_start_iso8601><title>&lt;a&gt; &quot;b&quot;</title></source><source mount=\"/t&amp;u\"><bitrate>128</bitrate>";
    assert!(seen.contains(rest), "{seen}");
    assert!(seen.ends_with("</source></icestats>\n"), "{seen}");
    let of_one = body(&mut stage, "/admin/stats?mount=/stream/t%26u");
    assert_eq!(of_one.matches("<source ").count(), 1);
    assert!(of_one.contains("mount=\"/t&amp;u\""), "{of_one}");
    assert_eq!(
        body(&mut stage, "/admin/stats?mount=x"),
        "<?xml version=\"1.0\"?>\n<icestats></icestats>\n"
    );
    // XML has no such characters.
    let (mut stage, _) = self::stage(&["%EF%BF%BE%EF%BF%BF"]);
    let seen = body(&mut stage, "/admin/stats");
    assert!(seen.contains("mount=\"/\u{fffd}\u{fffd}\""), "{seen}");
}

/// The listeners of a stream, by its mount point or by its path.
#[test]
fn listeners_are_listed_as_icecast_does() {
    let (mut stage, _) = stage(&["s", "t"]);
    let none = "<?xml version=\"1.0\"?>\n<icestats><source mount=\"/s\"><Listeners>0</Listeners></source></icestats>\n";
    assert_eq!(body(&mut stage, "/admin/listclients?mount=/s"), none);
    stage.viewer("s");
    stage.viewer("t");
    stage.wait_seconds(7);
    let mut ids = Vec::new();
    for mount in ["/s", "/stream/s", "s"] {
        let seen = body(&mut stage, &format!("/admin/listclients?mount={mount}"));
        let head = "<?xml version=\"1.0\"?>\n<icestats><source mount=\"/s\"><Listeners>1</Listeners><listener><Connected>7</Connected><ID>";
        assert!(seen.starts_with(head), "{seen}");
        let rest = "</ID><IP>10.0.0.1</IP><UserAgent></UserAgent></listener></source></icestats>\n";
        assert!(seen.ends_with(rest), "{seen}");
        ids.push(seen[head.len()..seen.len() - rest.len()].to_owned());
    }
    // The id is that of the API.
    let kick = format!("DELETE /api/kick-viewer?id={}", ids[0]);
    assert!(ask(&mut stage, &kick, "").starts_with("HTTP/1.1 200 "));
    assert_eq!(body(&mut stage, "/admin/listclients?mount=/s"), none);
    for (path, status) in [
        ("/admin/listclients?mount=/none", 404),
        ("/admin/listclients", 400),
        ("/admin/listclients?mount=/", 400),
        ("/admin/listclients?mount=%f", 400),
        ("/admin/other", 404),
    ] {
        let answer = ask(&mut stage, &format!("GET {path}"), "");
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{path}: {answer}"
        );
    }
    stage.relay.check();
}

/// Only the API's hosts get the lists, only with `--icecast`, and not by the pages of other sites.
#[test]
fn only_the_apis_hosts_get_panels_lists() {
    let paths = [
        "/status-json.xsl",
        "/admin/stats",
        "/admin/listclients?mount=/s",
    ];
    for (options, fields, status) in [
        (&OPTIONS[..], "Authorization: Basic YWRtaW46eA==\r\n", 200),
        (&OPTIONS, "Origin: http://other\r\n", 403),
        (&["--icecast", "--token-server=10.7.0.0/24"], "", 403),
        (&["--token-server=10.0.0.0/24"], "", 404),
    ] {
        let mut stage = Stage::new(options);
        let put = "PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Length: 999999\r\nContent-Type: audio/mpeg\r\n\r\n";
        if status == 200 {
            ask(
                &mut stage,
                "POST /api/add-token?type=http&sessionid=s&direction=both",
                "",
            );
            stage.client(put);
        }
        for path in paths {
            let answer = ask(&mut stage, &format!("GET {path}"), fields);
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status} ")),
                "{options:?} {path}: {answer}"
            );
            let answer = ask(&mut stage, &format!("POST {path}"), "");
            assert!(
                answer.starts_with(if options.len() == 1 {
                    "HTTP/1.1 404 "
                } else {
                    "HTTP/1.1 405 "
                }),
                "{answer}"
            );
        }
    }
}
