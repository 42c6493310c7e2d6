//! Units as they are read, and the packets that ffprobe finds in the same file.

use std::path::Path;

use super::tools::*;
use tollgate::format::{Finding, Format, Scanner};
use tollgate::remux::{Codec, Reader, ReaderEvent, Track};

const CODECS: [Codec; 9] = [
    Codec::H264,
    Codec::H265,
    Codec::Av1,
    Codec::Vp9,
    Codec::Aac,
    Codec::MpegAudio,
    Codec::Ac3,
    Codec::Eac3,
    Codec::Opus,
];

/// A unit or a packet: seconds, bytes.
type Row = (f64, f64, usize);

fn read(file: &[u8], format: Format) -> Vec<(Track, Vec<Row>)> {
    let mut reader = Reader::new(format, 1 << 20).expect("a reader");
    let (mut tracks, mut rows): (Vec<Track>, Vec<Vec<Row>>) = (Vec::new(), Vec::new());
    let mut take = |heard: ReaderEvent<'_>| {
        match heard {
            ReaderEvent::Tracks(told) => {
                tracks = told.to_vec();
                rows.resize(tracks.len().max(rows.len()), Vec::new());
            }
            ReaderEvent::Unit(unit) => {
                let seconds = |time: i64| time as f64 / 1e9;
                let row = (
                    seconds(unit.decode),
                    seconds(unit.present),
                    unit.bytes.len(),
                );
                rows[unit.track].push(row);
            }
            ReaderEvent::Announced(_) | ReaderEvent::PieceEnds => {}
            ReaderEvent::LeftOut { number, codec } => println!("  left out: {number} {codec}"),
        }
        Ok(())
    };
    if let Err(fault) = reader.feed(file, &mut take) {
        println!("  fault: {}", fault.0);
    }
    reader.finish(&mut take).expect("no fault");
    tracks.into_iter().zip(rows).collect()
}

fn name_of(codec: Codec) -> &'static [&'static str] {
    match codec {
        Codec::H264 => &["h264"],
        Codec::H265 => &["hevc"],
        Codec::Av1 => &["av1"],
        Codec::Vp8 => &["vp8"],
        Codec::Vp9 => &["vp9"],
        Codec::Aac => &["aac"],
        Codec::MpegAudio => &["mp1", "mp2", "mp3"],
        Codec::Ac3 => &["ac3"],
        Codec::Eac3 => &["eac3"],
        Codec::Opus => &["opus"],
    }
}

fn probe(path: &Path) -> (Vec<serde_json::Value>, Vec<serde_json::Value>) {
    let path = path.to_str().expect("a path in UTF-8");
    let entries = "stream=index,id,codec_name,width,height,sample_rate,channels:packet=stream_index,dts_time,pts_time,size,flags";
    let output = run(
        "ffprobe",
        &["-v", "quiet", "-show_entries", entries, "-of", "json", path],
    );
    let output: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let list = |name: &str| output[name].as_array().cloned().unwrap_or_default();
    (list("streams"), list("packets"))
}

/// Says what differs, in words.
fn compare(path: &Path) -> Vec<String> {
    let file = std::fs::read(path).expect("a file");
    let mut format = None;
    Scanner::default().feed(&file, &mut |finding, _| {
        if let Finding::Format(told) = finding {
            format = Some(told);
        }
    });
    let Some(format) = format.filter(|format| Reader::new(*format, 1).is_some()) else {
        return Vec::new();
    };
    println!("{}", path.display());
    let (streams, packets) = probe(path);
    let mut found = Vec::new();
    let mut used = Vec::new();
    for (track, units) in read(&file, format) {
        let names = name_of(track.codec);
        let stream = streams.iter().find(|stream| {
            stream["codec_name"]
                .as_str()
                .is_some_and(|name| names.contains(&name))
                && !used.contains(&stream["index"])
        });
        let Some(stream) = stream else {
            found.push(format!("{}: ffprobe has no {names:?}", path.display()));
            continue;
        };
        used.push(stream["index"].clone());
        let number =
            |value: &serde_json::Value| value.as_str().and_then(|it| it.parse::<f64>().ok());
        let packets = packets
            .iter()
            .filter(|packet| packet["stream_index"] == stream["index"]);
        let packets: Vec<(Option<f64>, Option<f64>, f64)> = packets
            .map(|it| {
                (
                    number(&it["dts_time"]),
                    number(&it["pts_time"]),
                    number(&it["size"]).unwrap_or(0.0),
                )
            })
            .collect();
        let say = |what: String| {
            format!(
                "{} {} {:?}: {what}",
                path.display(),
                track.number,
                track.codec
            )
        };
        println!(
            "  {} {:?} {:?} {} units",
            track.number,
            track.codec,
            track.shape,
            units.len()
        );
        if packets.len() != units.len() {
            found.push(say(format!(
                "{} units, {} packets",
                units.len(),
                packets.len()
            )));
        }
        let shape = format!("{:?}", track.shape);
        let told = |name: &str| match &stream[name] {
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let is_told = match track.codec {
            Codec::H264 | Codec::H265 | Codec::Av1 | Codec::Vp8 | Codec::Vp9 => {
                [told("width"), told("height")]
            }
            _ => [told("sample_rate"), told("channels")],
        };
        if !is_told.iter().all(|value| shape.contains(value.as_str())) {
            found.push(say(format!("{shape}, ffprobe has {is_told:?}")));
        }
        let clock = f64::from(track.clock).min(90_000.0);
        let is_ts = format == Format::MpegTs;
        let mut base = None;
        for (index, (unit, packet)) in units.iter().zip(&packets).enumerate() {
            if let Some(present) = packet.1 {
                let base = *base.get_or_insert(unit.1 - present);
                if (unit.1 - present - base).abs() > 1.01 / clock + 2e-6 {
                    found.push(say(format!(
                        "unit {index}: {unit:?}, packet {packet:?}, off by {base}"
                    )));
                    break;
                }
                if format != Format::Matroska
                    && format != Format::WebM
                    && packet
                        .0
                        .is_some_and(|decode| (unit.0 - decode - base).abs() > 1.01 / clock + 2e-6)
                {
                    found.push(say(format!(
                        "decoding of unit {index}: {unit:?}, packet {packet:?}, off by {base}"
                    )));
                    break;
                }
            }
            if !is_ts && unit.2 as f64 != packet.2 {
                found.push(say(format!("unit {index}: {unit:?}, packet {packet:?}")));
                break;
            }
        }
    }
    for stream in &streams {
        let names = CODECS.iter().flat_map(|codec| name_of(*codec));
        let is_known = names.clone().any(|name| stream["codec_name"] == **name);
        let has_packets = packets
            .iter()
            .any(|it| it["stream_index"] == stream["index"]);
        if is_known && has_packets && !used.contains(&stream["index"]) {
            found.push(format!("{}: no track for {stream}", path.display()));
        }
    }
    found
}

/// Returns the files of `tests/media` and of the folder in `TOLLGATE_MORE_MEDIA`.
#[test]
#[ignore = "needs ffprobe"]
fn the_units_are_the_packets_that_ffprobe_finds() {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/media");
    let more = std::env::var_os("TOLLGATE_MORE_MEDIA").map(std::path::PathBuf::from);
    let mut found = Vec::new();
    for folder in [Some(own), more].into_iter().flatten() {
        let files = std::fs::read_dir(&folder).expect("a folder");
        let mut files: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
        files.sort();
        found.extend(files.iter().flat_map(|file| compare(file)));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// The bytes of each unit, by codec: one track of each.
fn bytes_of(file: &[u8], format: Format) -> Vec<(Codec, Vec<Vec<u8>>)> {
    let mut reader = Reader::new(format, 1 << 20).expect("a reader");
    let mut found: Vec<(Codec, Vec<Vec<u8>>)> = Vec::new();
    let mut take = |heard: ReaderEvent<'_>| {
        match heard {
            ReaderEvent::Tracks(tracks) => {
                for track in tracks.iter().skip(found.len()) {
                    found.push((track.codec, Vec::new()));
                }
            }
            ReaderEvent::Unit(unit) => found[unit.track].1.push(unit.bytes.to_vec()),
            ReaderEvent::Announced(_) | ReaderEvent::PieceEnds | ReaderEvent::LeftOut { .. } => {}
        }
        Ok(())
    };
    let _ = reader.feed(file, &mut take);
    reader.finish(&mut take).expect("no fault");
    found
}

/// What is cut out of MPEG-TS is what ffmpeg makes of it for MP4, delimiters left out of both.
#[test]
#[ignore = "needs ffmpeg"]
fn the_units_of_mpeg_ts_are_the_bytes_that_ffmpeg_copies() {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/media");
    let more = std::env::var_os("TOLLGATE_MORE_MEDIA").map(std::path::PathBuf::from);
    let folder = folder("remux");
    let mut differ = Vec::new();
    for media in [Some(own), more].into_iter().flatten() {
        for file in std::fs::read_dir(&media).expect("a folder") {
            let path = file.expect("a file").path();
            if path.extension().is_none_or(|extension| extension != "ts") {
                continue;
            }
            let units = bytes_of(&std::fs::read(&path).expect("a file"), Format::MpegTs);
            for (codec, units) in &units {
                let (stream, filter) = match codec {
                    Codec::H264 => ("0:v:0", "filter_units=remove_types=9"),
                    Codec::H265 => ("0:v:0", "filter_units=remove_types=35"),
                    Codec::Aac => ("0:a:0", "aac_adtstoasc"),
                    _ => ("0:a:0", "null"),
                };
                let copy = folder.join("copy.mp4");
                let (from, to) = (path.to_str().expect("UTF-8"), copy.to_str().expect("UTF-8"));
                let flags = "frag_keyframe+delay_moov+default_base_moof";
                let copied = run(
                    "ffmpeg",
                    &[
                        "-y",
                        "-v",
                        "error",
                        "-i",
                        from,
                        "-map",
                        stream,
                        "-c",
                        "copy",
                        "-bsf",
                        filter,
                        "-movflags",
                        flags,
                        to,
                    ],
                );
                let copy = std::fs::read(&copy).unwrap_or_default();
                let copy = bytes_of(&copy, Format::Mp4);
                let Some((_, copy)) = copy.first().filter(|_| copied.status.success()) else {
                    differ.push(format!("{from} {codec:?}: ffmpeg copies nothing"));
                    continue;
                };
                let same = units
                    .iter()
                    .zip(copy)
                    .take_while(|(unit, copy)| unit == copy)
                    .count();
                println!(
                    "{from} {codec:?}: {same} of {} units, {} copied",
                    units.len(),
                    copy.len()
                );
                if same < units.len() || same < copy.len() {
                    differ.push(format!("{from} {codec:?}: unit {same}"));
                }
            }
        }
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}
