//! Internet radio: the programs that send titles, the players that read them, and Icecast itself for
//! comparison.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde_json::Value;

use super::proxies::{haproxy, nginx};
use super::support::client::Client;
use super::support::server::Server;
use super::support::streaming::{Source, Viewer, without_titles};
use super::support::until;
use super::tools::*;
use super::vlc;

/// What the song's tags say. The title that goes out has an apostrophe of its own.
const ARTIST: &str = "Ä & \"B\"";
const SONG: &str = "One's <b>";

/// A song with tags, of half a minute.
fn song(folder: &Path) -> String {
    let path = folder.join("song.mp3").display().to_string();
    let (artist, title) = (format!("artist={ARTIST}"), format!("title={SONG}"));
    let tags = ["-metadata", &artist, "-metadata", &title, &path];
    let sound = [
        "-v", "error", "-y", "-f", "lavfi", "-i", "sine", "-t", "30", "-b:a", "128k",
    ];
    run("ffmpeg", &[&sound[..], &tags].concat());
    path
}

/// Writes a file of configuration. It holds a password, which ezstream insists to keep.
fn write(path: &Path, text: String) -> String {
    std::fs::write(path, text).expect("a file");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).expect("its owner");
    path.display().to_string()
}

/// A stream that ffmpeg sends as to Icecast, with what it says of its station.
fn station(port: u16, password: &str) -> Background {
    let mount = format!("icecast://source:{password}@127.0.0.1:{port}/s");
    let arguments = [
        &["-v", "error"],
        SOUND,
        &[
            "-c:a",
            "libmp3lame",
            "-b:a",
            "128k",
            "-content_type",
            "audio/mpeg",
        ],
        &[
            "-ice_name",
            "N & <o>",
            "-ice_genre",
            "Jazz",
            "-ice_url",
            "http://u",
            "-f",
            "mp3",
            &mount,
        ],
    ];
    Background::start("ffmpeg", &arguments.concat())
}

fn output(program: &str, arguments: &[&str]) -> String {
    let output = run(program, arguments);
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

#[test]
#[ignore = "needs ezstream, liquidsoap, MPD and ffmpeg"]
fn sources_send_the_titles_of_songs() {
    let server = Server::gated(&["--icecast"]);
    let folder = folder("radio");
    let (song, port) = (song(&folder), server.address().port());
    for name in ["ezstream", "liquidsoap", "mpd"] {
        server.admit(name);
    }

    let ezstream = format!(
        "<ezstream><servers><server><name>default</name><protocol>HTTP</protocol><hostname>127.0.0.1</hostname>\
         <port>{port}</port><user>source</user><password>ezstream</password></server></servers>\
         <streams><stream><name>default</name><mountpoint>/live.mp3</mountpoint><format>MP3</format>\
         <intake>default</intake><server>default</server></stream></streams>\
         <intakes><intake><name>default</name><type>file</type><filename>{song}</filename></intake></intakes></ezstream>"
    );
    let ezstream = write(&folder.join("ezstream.xml"), ezstream);
    let _ezstream = Background::start("ezstream", &["-c", &ezstream]);

    let liquidsoap = format!(
        "settings.init.allow_root.set(true)\noutput.icecast(%mp3(bitrate=128), host=\"127.0.0.1\", port={port}, \
         password=\"liquidsoap\", mount=\"live.mp3\", fallible=true, single(\"{song}\"))\n"
    );
    let liquidsoap = write(&folder.join("radio.liq"), liquidsoap);
    let _liquidsoap = Background::start("liquidsoap", &[&liquidsoap]);

    let (place, socket) = (folder.display(), folder.join("mpd.sock"));
    let mpd = format!(
        "music_directory \"{place}\"\ndb_file \"{place}/mpd.db\"\nbind_to_address \"{}\"\n\
         audio_output {{\ntype \"shout\"\nname \"radio\"\nhost \"127.0.0.1\"\nport \"{port}\"\nmount \"/live.mp3\"\n\
         password \"mpd\"\nencoding \"mp3\"\nbitrate \"128\"\nformat \"44100:16:2\"\n}}\n",
        socket.display()
    );
    let mpd = write(&folder.join("mpd.conf"), mpd);
    let _ = std::fs::remove_file(&socket);
    let _mpd = Background::start("mpd", &["--no-daemon", &mpd]);
    until("MPD plays the song", || {
        let mut control = UnixStream::connect(&socket).ok()?;
        let commands = b"update\nadd song.mp3\nplay\nclose\n";
        control.write_all(commands).ok()?;
        let mut answer = String::new();
        control.read_to_string(&mut answer).ok()?;
        (!answer.contains("ACK")).then_some(())
    });

    for name in ["ezstream", "liquidsoap", "mpd"] {
        let title = format!("{ARTIST} - {SONG}");
        until(name, || {
            (server.stream(name)?["title"] == title.as_str()).then_some(())
        });
    }
}

#[test]
#[ignore = "needs ffmpeg, mpv, VLC, npm, node and python3 with pip"]
fn players_read_the_titles() {
    let server = Server::gated(&["--icecast"]);
    server.admit("s");
    let url = format!("http://{}/stream/s", server.address());
    let fields =
        "Ice-Name: N & <o>\r\nIce-Genre: Jazz\r\nIce-Url: http://u\r\nIce-Bitrate: 128\r\n";
    let mp3 = [
        "-c:a",
        "libmp3lame",
        "-b:a",
        "128k",
        "-content_type",
        "audio/mpeg",
        "-headers",
        fields,
    ];
    let _source = Background::start(
        "ffmpeg",
        &[
            &["-v", "error"],
            SOUND,
            &mp3,
            &["-f", "mp3", "-method", "PUT", &url],
        ]
        .concat(),
    );
    await_media(&server, "s", 5_000);
    let title = "/admin.cgi?mode=updinfo&pass=s&song=%C3%84%20%26%20%22B%22%20-%20One's%20%3Cb%3E";
    assert_eq!(server.request("GET", title).status(), 200);
    let title = "Ä & \"B\" - One’s <b>";

    let tags = [
        "-v",
        "error",
        "-icy",
        "1",
        "-show_entries",
        "format_tags",
        "-of",
        "json",
        &url,
    ];
    let tags: Value = serde_json::from_str(&output("ffprobe", &tags)).expect("JSON");
    let tags = &tags["format"]["tags"];
    let seen = ["StreamTitle", "icy-name", "icy-genre", "icy-url"].map(|name| tags[name].clone());
    assert_eq!(seen, [title, "N & <o>", "Jazz", "http://u"]);

    let mpv = [
        "--no-config",
        "--ao=null",
        "--term-status-msg=",
        "--length=2",
        &url,
    ];
    let mpv = output("mpv", &mpv);
    assert!(mpv.contains(&format!("icy-title: {title}")), "{mpv}");

    // VLC asks again, with the field, when an answer names the station.
    let (vlc, home) = vlc::play("radio", "-vv --aout=dummy", &url);
    assert!(vlc.contains(&format!("New Icy-Title={title}")), "{vlc}");
    let _ = std::fs::remove_dir_all(home);

    let folder = folder("radio-readers");
    let place = folder.to_str().expect("a path in UTF-8");
    let packages = [
        "icy@2.1.0",
        "icecast-metadata-js@1.2.9",
        "icecast-metadata-stats@0.1.12",
    ];
    output(
        "npm",
        &[
            &[
                "install",
                "--silent",
                "--no-audit",
                "--no-fund",
                "--prefix",
                place,
            ],
            &packages[..],
        ]
        .concat(),
    );
    let script = folder.join("read.mjs");
    std::fs::write(&script, READER).expect("a script");
    let read = output("node", &[script.to_str().expect("a path in UTF-8"), &url]);
    for library in ["icy", "icecast-metadata-js", "icecast-metadata-stats"] {
        assert!(read.contains(&format!("{library}: {title}\n")), "{read}");
    }

    let python = folder.join("python");
    let python = python.to_str().expect("a path in UTF-8");
    output("python3", &["-m", "venv", python]);
    output(
        &format!("{python}/bin/pip"),
        &["install", "--quiet", "icyparser==1.1.2"],
    );
    let read = output(
        &format!("{python}/bin/python"),
        &["-c", PYTHON_READER, &url],
    );
    assert!(read.contains(title), "{read}");
}

/// Prints the title that each library reads.
const READER: &str = r#"
import icy from "icy";
import { IcecastReadableStream } from "icecast-metadata-js";
import Stats from "icecast-metadata-stats";
const url = process.argv[2];
const title = new Promise((resolve) => icy.get(url, (answer) => {
	answer.on("metadata", (block) => resolve(icy.parse(block).StreamTitle));
	answer.resume();
}));
console.log("icy:", await title);
const answer = await fetch(url, { headers: { "Icy-MetaData": "1" } });
const metadata = new Promise((resolve) => new IcecastReadableStream(answer, {
	icyMetaInt: parseInt(answer.headers.get("icy-metaint")),
	metadataTypes: ["icy"],
	onMetadata: ({ metadata }) => resolve(metadata.StreamTitle),
}).startReading());
console.log("icecast-metadata-js:", await metadata);
const stats = new Stats(url, { sources: ["icestats"], icestatsEndpoint: new URL("/status-json.xsl", url).href });
const { source } = (await stats.getIcestats()).icestats;
console.log("icecast-metadata-stats:", source.title.replace("'", "’"));
process.exit(0);
"#;

/// Prints the title that a library of PyPI reads.
const PYTHON_READER: &str = "
import sys, time
from icyparser import IcyParser
reader = IcyParser()
reader.getIcyInformation(sys.argv[1])
end = time.monotonic() + 30
while not reader.icy_streamtitle and time.monotonic() < end:
    time.sleep(0.1)
reader.thread_should_be_running = False
print(reader.icy_streamtitle)
";

/// Proxies pass on the field that asks for titles, and the blocks where they stand. nginx asks by
/// HTTP/1.0 unless its configuration has `proxy_http_version`.
#[test]
#[ignore = "needs nginx and haproxy"]
fn titles_come_through_proxies() {
    let server = Server::gated(&["--icecast", "--proxy-protocol=127.0.0.2"]);
    let relay = server.address();
    let location = |version: &str| {
        format!("location / {{ proxy_pass http://{relay}; proxy_buffering off; {version} }}")
    };
    let fronts = [
        nginx(&location(""), None),
        nginx(&location("proxy_http_version 1.1;"), None),
        haproxy(&server),
    ];
    server.admit("s");
    let fields = ["Content-Type: audio/mpeg", "Ice-Name: One"];
    let mut source = Source::open_with(relay, "PUT", "/stream/s", &fields);
    let fronts = fronts.iter().map(|(_, front)| (*front, "Icy-MetaData: 1"));
    let listeners = [(relay, "X: 1")].into_iter().chain(fronts);
    let mut listeners: Vec<(Viewer, Vec<u8>)> = listeners
        .map(|(address, field)| {
            let mut client = Client::connect(address);
            client.send(format!(
                "GET /stream/s HTTP/1.1\r\nHost: localhost\r\n{field}\r\n\r\n"
            ));
            (Viewer::of(client), Vec::new())
        })
        .collect();
    server.await_viewers("s", listeners.len());
    let song = include_bytes!("../media/sound.mp3").repeat(20);
    for (title, sent) in ["a", "b", ""].into_iter().zip(1..) {
        source.send(&song);
        for (listener, body) in &mut listeners {
            // Some of it waits for the end of its frame.
            body.extend(listener.read((sent * song.len()).saturating_sub(body.len() + 50_000)));
        }
        let line = format!("/api/set-title?sessionid=s&title={title}");
        until("it holds", || {
            let row = server.request("POST", &line).json();
            (row["title"].as_str().unwrap_or_default() == title).then_some(())
        });
    }
    assert_eq!(source.finish().status(), 200);
    let mut bodies = Vec::new();
    for (mut listener, mut body) in listeners {
        body.extend(listener.read_to_end().0);
        bodies.push((listener.head(), body));
    }
    let (_, plain) = bodies.remove(0);
    for (head, body) in bodies {
        assert_eq!(head.field("icy-metaint"), Some("16000"));
        assert_eq!(head.field("icy-name"), Some("One"));
        let (media, titles) = without_titles(&body);
        assert!(media == plain, "{} of {}", media.len(), plain.len());
        let titles: Vec<&str> = titles.iter().map(|(_, title)| title.as_str()).collect();
        assert_eq!(titles, ["StreamTitle='a';", "StreamTitle='b';"]);
    }
}

/// Icecast, on a port of its own.
fn icecast(folder: &Path) -> (Background, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port();
    drop(listener);
    let place = folder.display();
    let configuration = format!(
        "<icecast><authentication><source-password>s</source-password><admin-user>admin</admin-user>\
         <admin-password>a</admin-password></authentication><hostname>127.0.0.1</hostname><listen-socket>\
         <port>{port}</port><bind-address>127.0.0.1</bind-address></listen-socket><paths><basedir>/usr/share/icecast2</basedir>\
         <logdir>{place}</logdir><adminroot>/usr/share/icecast2/admin</adminroot><webroot>/usr/share/icecast2/web</webroot></paths>\
         <security><chroot>0</chroot><changeowner><user>nobody</user><group>nogroup</group></changeowner></security></icecast>"
    );
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o777)).expect("its owner");
    let path = folder.join("icecast.xml");
    std::fs::write(&path, configuration).expect("its configuration");
    let path = path.display().to_string();
    (Background::start("icecast2", &["-c", &path]), port)
}

/// The names and values of elements without elements of their own.
fn elements(xml: &str) -> BTreeMap<String, String> {
    let pieces: Vec<&str> = xml.split('<').collect();
    let pairs = pieces.windows(2).filter_map(|pair| {
        let (name, value) = pair[0].split_once('>')?;
        let is_closed = pair[1]
            .strip_prefix('/')?
            .strip_prefix(name)?
            .starts_with('>');
        is_closed.then(|| (name.to_owned(), value.to_owned()))
    });
    pairs.collect()
}

/// The same questions to Icecast and to Tollgate. Values of each run are compared by their form.
#[test]
#[ignore = "needs icecast2, ffmpeg and curl"]
fn panels_get_the_fields_that_icecast_gives() {
    let server = Server::gated(&["--icecast"]);
    server.admit("s");
    let (_icecast, icecast) = icecast(&folder("icecast2"));
    let ports = [icecast, server.address().port()];
    let ask = |port: u16, path: &str, more: &[&str]| {
        let url = format!("http://127.0.0.1:{port}{path}");
        output("curl", &[&["-s", "-m", "10"], more, &[&url]].concat())
    };
    until("Icecast listens", || {
        ask(icecast, "/status-json.xsl", &[])
            .contains("icestats")
            .then_some(())
    });
    let _sources = ports.map(|port| station(port, "s"));
    let has_source = |port| ask(port, "/status-json.xsl", &[]).contains("listenurl");
    until("both have a source", || {
        (has_source(ports[0]) && has_source(ports[1])).then_some(())
    });
    let _listeners = [("/s", ports[0]), ("/stream/s", ports[1])].map(|(path, port)| {
        let url = format!("http://127.0.0.1:{port}{path}");
        Background::start("curl", &["-s", "-o", "/dev/null", &url])
    });
    let title = "a%20%3Cb%3E%20%26%20%22c%22%20'd'";
    for (query, credentials) in [
        (format!("mode=updinfo&song={title}"), "source:s"),
        (format!("mode=updinfo&song={title}"), "source:wrong"),
        (format!("mode=updinfo&artist=e&title={title}"), "source:s"),
    ] {
        let path = format!("/admin/metadata?mount=/s&{query}");
        let status = ["-w", "%{http_code}", "-u", credentials];
        let [theirs, ours] = ports.map(|port| ask(port, &path, &status).replace(['\r', '\n'], ""));
        match credentials {
            "source:s" => assert_eq!(ours, theirs, "{query}"),
            // Icecast says 401 and Tollgate 403.
            _ => assert!(
                theirs.ends_with("401") && ours.ends_with("403"),
                "{theirs} {ours}"
            ),
        }
    }
    let is_of_run = |name: &str| matches!(name, "stream_start_iso8601" | "Connected" | "ID");
    let compare = |what: &str, theirs: BTreeMap<String, String>, ours: BTreeMap<String, String>| {
        assert!(ours.len() >= 3, "{what}: {ours:?}");
        for (name, value) in ours {
            let other = theirs
                .get(&name)
                .unwrap_or_else(|| panic!("{what}: Icecast has no {name}"));
            match name.as_str() {
                "listenurl" => assert!(value.ends_with("/stream/s") && other.ends_with("/s")),
                "UserAgent" => assert!(value.is_empty() && other.starts_with("curl/")),
                name if is_of_run(name) => {
                    assert_eq!(value.contains('T'), other.contains('T'), "{what} {name}")
                }
                name => assert_eq!(value, *other, "{what}: {name}"),
            }
        }
    };
    let is_ready = |port| {
        let list = ask(port, "/status-json.xsl", &[]);
        list.contains("\"listeners\":1") && list.contains("\"title\":\"e - a")
    };
    until("both have a listener and the last title", || {
        (is_ready(ports[0]) && is_ready(ports[1])).then_some(())
    });
    let [theirs, ours] = ports.map(|port| {
        let list: Value = serde_json::from_str(&ask(port, "/status-json.xsl", &[])).expect("JSON");
        let source = list["icestats"]["source"]
            .as_object()
            .expect("one source")
            .clone();
        let text = |value: Value| value.as_str().map_or(value.to_string(), str::to_owned);
        source
            .into_iter()
            .map(|(name, value)| (name, text(value)))
            .collect()
    });
    compare("status-json.xsl", theirs, ours);
    for path in ["/admin/stats", "/admin/listclients?mount=/s"] {
        let [theirs, ours] = ports.map(|port| {
            let list = ask(port, path, &["-u", "admin:a"]);
            assert!(list.contains("<source mount=\"/s\">"), "{list}");
            elements(&list.replace("&quot;", "\""))
        });
        compare(path, theirs, ours);
    }
}
