//! Streams of a known format without join points, through the real binary: bytes for late viewers,
//! and the log line.

use crate::support;
use crate::support::corpus;
use crate::support::made::{FLV_HEAD, SOUND_SETUP, VIDEO_SETUP, mp4_box, tag};
use crate::support::response::End;
use crate::support::server::Server;
use crate::support::streaming::{Source, Viewer};

fn demo() -> (Server, Source) {
    let server = Server::gated(&[]);
    server.admit("demo");
    let source = Source::open(server.address(), "/stream/demo");
    (server, source)
}

fn await_received(server: &Server, bytes: usize) {
    support::until("it is all there", || {
        (server.stream("demo")?["bytes_received"] == bytes).then_some(())
    });
}

fn late(server: &Server) -> Viewer {
    let mut viewer = Viewer::ask(server.address(), "/stream/demo");
    viewer.head();
    viewer
}

fn no_joins(server: &Server) -> String {
    let stream = server.stream("demo").expect("it runs");
    assert_eq!(stream["joins"], 0);
    stream["no_joins"].as_str().expect("a reason").to_owned()
}

/// ffmpeg writes such fragments where it is not told otherwise.
#[test]
fn fragments_with_positions_in_the_file_come_from_its_first_byte_and_it_is_said_why() {
    let (server, mut source) = demo();
    let mut media = corpus::had(&corpus::file("h264.mp4")).1;
    for number in 0..40 {
        let tfhd = [
            &[0, 0, 0, 1, 0, 0, 0, 1][..],
            &(media.len() as u64).to_be_bytes(),
        ]
        .concat();
        let time = mp4_box(b"tfdt", &[0, 0, 0, 0, 0, 0, 0, number]);
        let run = mp4_box(b"trun", &[0, 0, 0, 0, 0, 0, 0, 1]);
        let traf = mp4_box(b"traf", &[mp4_box(b"tfhd", &tfhd), time, run].concat());
        media.extend(mp4_box(b"moof", &traf));
        media.extend(mp4_box(b"mdat", &vec![number; 50_000]));
    }
    source.send(&media);
    await_received(&server, media.len());
    let reason = no_joins(&server);
    assert!(reason.contains("default_base_moof"), "{reason}");
    let mut viewer = late(&server);
    assert_eq!(source.finish().status(), 200);
    let (got, end) = viewer.read_to_end();
    assert!(got == media && end == End::Complete, "{} bytes", got.len());
    server.await_line(&["default_base_moof"]);
    let lines = server.stderr();
    let said = lines
        .iter()
        .filter(|line| line.contains("default_base_moof"));
    assert_eq!(said.count(), 1);
}

/// Once it is no beginning any more, a viewer has what decoders need, and is near live: with the
/// first key frame it sees a picture.
#[test]
fn flv_before_its_first_key_frame_comes_with_its_header_and_live() {
    let (server, mut source) = demo();
    let setups = [tag(9, 0, VIDEO_SETUP), tag(8, 0, SOUND_SETUP)].concat();
    let mut media = [FLV_HEAD, &setups].concat();
    let header = media.clone();
    let picture = |time: u32| {
        let body = [&[0x27, 1, 0, 0, 0][..], &[7; 5_000]].concat();
        tag(9, time, &body)
    };
    for number in 0..300 {
        media.extend(picture(number * 40));
    }
    source.send(&media);
    await_received(&server, media.len());
    assert!(no_joins(&server).contains("nothing has come"));
    let mut viewer = late(&server);
    server.await_viewers("demo", 1);
    let key = tag(9, 12_000, &[0x17, 1, 0, 0, 0, 5, 5]);
    source.send(&key);
    assert_eq!(source.finish().status(), 200);
    let (got, end) = viewer.read_to_end();
    assert_eq!(end, End::Complete);
    let newest = picture(299 * 40);
    assert!(got == [header, newest, key].concat(), "{} bytes", got.len());
}
