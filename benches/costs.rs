//! What a byte costs each scanner, splicer and remuxer: instructions, as callgrind counts them, and
//! allocated bytes. Ordinary files stand beside the hostile sources of the tests.
//!
//! `cargo bench --bench costs` prints the table. It needs valgrind. `cargo bench --bench costs --
//! remux` prints the rows whose names contain that word. `cargo bench --bench costs -- FILE…` prints
//! the rows of these files, each with a `/` in its path. `cargo bench --bench costs -- write FOLDER` writes
//! the hostile sources, for `benches/hostile.py`.

use std::path::Path;
use std::process::Command;

use tollgate::format::splice::Splicer;
use tollgate::format::{Finding, Format, Scanner};
use tollgate::remux::{Remuxer, Target};

#[path = "../tests/bounds/counting.rs"]
#[allow(dead_code, reason = "peaks belong to the tests")]
mod counting;
#[path = "../tests/bounds/media.rs"]
mod media;

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

/// Bytes of each source that callgrind runs. A longer one costs the same for each byte.
const BYTES: usize = 64 * 1024;
const PIECE: usize = 16 * 1024;
const UNIT_BYTES_MAX: usize = 2 << 20;
const KINDS: [&str; 4] = ["scan", "splice", "remux to ts", "remux to mp4"];
/// The work that a byte may make, and that a source may save up, as the relay has them.
const WORK_PER_BYTE: usize = 32;
const WORK_SAVED_MAX: usize = 256 * 1024;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [mode, kind, source, rounds] = &arguments[..]
        && mode == "once"
    {
        let rounds = rounds.parse().expect("a number of rounds");
        return once(kind, Path::new(source), rounds);
    }
    if let [mode, folder, ..] = &arguments[..]
        && mode == "write"
    {
        return write(Path::new(folder));
    }
    let wanted = arguments
        .iter()
        .find(|word| !word.starts_with('-') && !word.contains('/'));
    println!("| what | source | instructions a byte | allocated bytes a byte |");
    println!("|---|---|---|---|");
    // Making all sources takes longer under callgrind than reading one.
    let file = std::env::temp_dir().join(format!("tollgate-costs-{}", std::process::id()));
    let files: Vec<&String> = arguments.iter().filter(|word| word.contains('/')).collect();
    let sources = match files.is_empty() {
        true => sources(),
        false => {
            let read = |path: &String| std::fs::read(path).expect("the file");
            let files = files.iter().map(|path| (path.to_string(), read(path)));
            files.collect()
        }
    };
    for (source, bytes) in sources {
        let beginning = &bytes[..bytes.len().min(BYTES)];
        std::fs::write(&file, beginning).expect("a file in the temporary folder");
        for kind in KINDS {
            let row = format!("{kind} {source}");
            if wanted.is_some_and(|word| !row.contains(word.as_str())) {
                continue;
            }
            // Buffers that stay are allocated in the first half.
            let Some([half, whole]) = run(kind, &bytes) else {
                continue;
            };
            let allocated = (whole.allocated - half.allocated) as f64;
            let allocated = allocated / (whole.read - half.read).max(1) as f64;
            let read = run(kind, beginning).map_or(0, |[_, whole]| whole.read);
            let rounds = |rounds| instructions(kind, &file, rounds);
            // What the process does beside it is the same in both.
            let each = (rounds(3) - rounds(1)) as f64 / 2.0 / read as f64;
            println!("| {kind} | {source} | {each:.1} | {allocated:.1} |");
        }
    }
    let _ = std::fs::remove_file(&file);
}

fn write(folder: &Path) {
    for (name, bytes) in media::all() {
        std::fs::write(folder.join(name), bytes).expect("a file in the folder");
    }
}

fn sources() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/media");
    let files = [
        "h264.ts",
        "h264.flv",
        "h264.mkv",
        "h264.mp4",
        "theora.ogg",
        "sound.mp3",
        "sound.aac",
    ];
    let ordinary = files.map(|name| {
        let bytes = std::fs::read(folder.join(name)).expect("a file of the corpus");
        (format!("ordinary {name}"), bytes)
    });
    let hostile = media::all().into_iter();
    let hostile = hostile.map(|(name, bytes)| (name.to_string(), bytes));
    ordinary.into_iter().chain(hostile).collect()
}

/// How much of a source was read, and what was allocated until then.
#[derive(Clone, Copy)]
struct Figures {
    read: usize,
    allocated: usize,
}

/// Returns the figures after half of the bytes and after all: of fewer than there are if a reader
/// stops. `None` if there is no such reader.
fn run(kind: &str, bytes: &[u8]) -> Option<[Figures; 2]> {
    // The relay keeps this buffer.
    let mut out = Vec::with_capacity(4 << 20);
    let mut figures = [Figures {
        read: 0,
        allocated: counting::allocated(),
    }; 2];
    let mut scanner = Scanner::default();
    let mut splicer = Splicer::new(UNIT_BYTES_MAX);
    let mut remuxer = match kind {
        "remux to ts" => Some(Remuxer::new(
            format(bytes)?,
            Target::MpegTs,
            UNIT_BYTES_MAX,
        )?),
        "remux to mp4" => Some(Remuxer::new(format(bytes)?, Target::Mp4, UNIT_BYTES_MAX)?),
        _ => None,
    };
    let mut saved = WORK_SAVED_MAX;
    for piece in bytes.chunks(PIECE) {
        out.clear();
        let goes_on = match &mut remuxer {
            Some(remuxer) => {
                let mut left = saved + WORK_PER_BYTE * piece.len();
                let fed = remuxer.feed(piece, &mut left, &mut out);
                saved = left.min(WORK_SAVED_MAX);
                fed.is_ok()
            }
            None if kind == "scan" => {
                scanner.feed(piece, &mut |_, _| {});
                true
            }
            None => splicer.feed(piece, &mut out).is_ok(),
        };
        let [half, whole] = &mut figures;
        whole.read += piece.len();
        whole.allocated = counting::allocated();
        if 2 * whole.read <= bytes.len() {
            *half = *whole;
        }
        if !goes_on {
            break;
        }
    }
    Some(figures)
}

fn format(bytes: &[u8]) -> Option<Format> {
    let mut format = None;
    Scanner::default().feed(bytes, &mut |finding, _| {
        if let Finding::Format(known) = finding {
            format = Some(known);
        }
    });
    format
}

fn once(kind: &str, source: &Path, rounds: usize) {
    let bytes = std::fs::read(source).expect("the source's bytes");
    for _ in 0..rounds {
        run(kind, &bytes);
    }
}

/// Returns the instructions of a process that reads a source `rounds` times.
fn instructions(kind: &str, source: &Path, rounds: usize) -> i64 {
    let ran = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe().expect("the path of this program"))
        .args(["once", kind])
        .arg(source)
        .arg(rounds.to_string())
        .output()
        .expect("valgrind has to be installed");
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    let line = said.lines().find(|line| line.contains("Collected :"));
    let count = line.and_then(|line| line.split_whitespace().last()?.parse().ok());
    count.unwrap_or_else(|| panic!("callgrind counts no instructions: {said}"))
}
