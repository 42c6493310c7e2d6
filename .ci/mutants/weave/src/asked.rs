//! Put into the woven tree, as its module `mutants`: which mutant it is now, by `MUTANT`; or, with
//! `MUTANT_RECORD`, none, and the numbers of those that are come by are written to that file.

use std::fs::File;
use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

const UNKNOWN: u32 = u32::MAX;
const RECORDED: u32 = u32::MAX - 1;
static WHICH: AtomicU32 = AtomicU32::new(UNKNOWN);
static RECORD: OnceLock<File> = OnceLock::new();
static SEEN: [AtomicBool; 1 << 16] = [const { AtomicBool::new(false) }; 1 << 16];

/// Whether it is this one.
#[inline]
pub fn on(number: u32) -> bool {
    let which = WHICH.load(Relaxed);
    if which < RECORDED { which == number } else { ask_and_record(number) }
}

#[cold]
fn ask_and_record(number: u32) -> bool {
    if WHICH.load(Relaxed) == UNKNOWN {
        let Some(record) = std::env::var_os("MUTANT_RECORD") else {
            let which = std::env::var("MUTANT").map_or(0, |which| which.parse().unwrap());
            WHICH.store(which, Relaxed);
            return which == number;
        };
        let _ = RECORD.set(File::options().append(true).create(true).open(record).unwrap());
        WHICH.store(RECORDED, Relaxed);
    }
    if let Some(mut record) = RECORD.get()
        && !SEEN[number as usize].swap(true, Relaxed)
    {
        // Whoever counts allocations counts none here.
        let mut line = [0; 16];
        let _ = writeln!(&mut line[..], "{number}");
        let end = line.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let _ = record.write_all(&line[..end]);
    }
    false
}
