//! Icecast's source clients, with `--icecast`: ffmpeg's `icecast://`, and libshout by way of
//! ezstream.

use std::os::unix::fs::PermissionsExt;

use super::support::server::Server;
use super::tools::*;

#[test]
#[ignore = "needs ffmpeg and curl"]
fn ffmpeg_publishes_as_to_icecast() {
    let server = Server::gated(&["--icecast"]);
    server.admit("secret");
    let mount = format!("icecast://source:secret@{}/live.ogg", server.address());
    let arguments = [
        &["-v", "error"],
        SOUND,
        &[
            "-c:a",
            "libvorbis",
            "-content_type",
            "audio/ogg",
            "-f",
            "ogg",
            &mount,
        ],
    ]
    .concat();
    let _encoder = Background::start("ffmpeg", &arguments);
    await_media(&server, "secret", 5_000);
    let path = folder("icecast").join("live.ogg");
    record(&format!("http://{}/stream/secret", server.address()), &path);
    assert_plays(&path, &["vorbis"], false);
}

#[test]
#[ignore = "needs ezstream, ffmpeg and curl"]
fn libshout_publishes_as_to_icecast() {
    let server = Server::gated(&["--icecast"]);
    server.admit("secret");
    let folder = folder("ezstream");
    let (song, configuration) = (folder.join("song.mp3"), folder.join("ezstream.xml"));
    let song_path = song.to_str().expect("a path in UTF-8");
    run(
        "ffmpeg",
        &[
            "-v", "error", "-y", "-f", "lavfi", "-i", "sine", "-t", "30", "-b:a", "128k", song_path,
        ],
    );
    let text = format!(
        "<ezstream><servers><server><name>default</name><protocol>HTTP</protocol><hostname>127.0.0.1</hostname>\
         <port>{}</port><user>source</user><password>secret</password></server></servers>\
         <streams><stream><name>default</name><mountpoint>/live.mp3</mountpoint><format>MP3</format>\
         <intake>default</intake><server>default</server></stream></streams>\
         <intakes><intake><name>default</name><type>file</type><filename>{song_path}</filename></intake></intakes></ezstream>",
        server.address().port()
    );
    std::fs::write(&configuration, text).expect("its configuration");
    // It holds the password, and ezstream insists.
    std::fs::set_permissions(&configuration, std::fs::Permissions::from_mode(0o600))
        .expect("its owner");
    let _source = Background::start(
        "ezstream",
        &["-c", configuration.to_str().expect("a path in UTF-8")],
    );
    await_media(&server, "secret", 10_000);
    let path = folder.join("recorded.mp3");
    record(&format!("http://{}/stream/secret", server.address()), &path);
    assert_plays(&path, &["mp3"], false);
}
