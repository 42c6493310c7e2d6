//! The token file: the journal of the table (see [`crate::gate::journal`]) on the disk. Used by the helper thread, once the server runs.
//!
//! ```text
//! PATH         the journal, appended to and synced; only its owner may read it
//! PATH.lock    locked for as long as a server uses the journal, and never written
//! PATH.new     the journal that is to take its place, while it is being compacted
//! ```
//!
//! What a crash leaves is always the journal or the one that took its place, whole but for a last line that nobody was told of.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::sys;
use crate::gate::journal::{self, Replay};
use crate::gate::{Limits, Tokens};

/// A journal that is open.
pub(super) struct TokenFile {
    path: PathBuf,
    file: File,
    /// Its length. What lies behind it, if a write failed, does not count.
    bytes: u64,
    /// Its length after it was compacted last, or when that failed last.
    compact_bytes: u64,
    limits: Limits,
    /// Held, and nothing else.
    _lock: File,
}

const READ_BYTES: usize = 64 * 1024;

impl TokenFile {
    /// Opens a journal, or begins one, and gives the table that it makes; and how many bytes of a line that a crash spoiled it has
    /// dropped. Errors are sentences that name the file.
    pub fn open(path: &Path, limits: Limits) -> Result<(TokenFile, Tokens, u64), String> {
        let failed =
            |error: io::Error| format!("cannot use the token file '{}': {error}", path.display());
        let lock = open(&with_suffix(path, "lock")).map_err(failed)?;
        if !sys::lock(lock.as_fd()).map_err(failed)? {
            return Err(format!(
                "the token file '{}' is in use by another server",
                path.display()
            ));
        }
        let file = open(path).map_err(failed)?;
        let (tokens, end) = read(&file, limits).map_err(|error| {
            format!(
                "cannot use the token file '{}': {error}; nothing was changed in it",
                path.display()
            )
        })?;
        let mut token_file = TokenFile {
            path: path.to_owned(),
            file,
            bytes: end.whole_bytes,
            compact_bytes: 0,
            limits,
            _lock: lock,
        };
        if end.whole_bytes == 0 {
            token_file.write(journal::HEADER).map_err(failed)?;
            sync_folder(path).map_err(failed)?;
        } else if end.torn_bytes > 0 {
            token_file.cut().map_err(failed)?;
            token_file.file.sync_data().map_err(failed)?;
        }
        Ok((token_file, tokens, end.torn_bytes))
    }

    /// Puts a line behind the others, on disk. If that fails, the journal is as it was.
    pub fn append(&mut self, line: &[u8]) -> Result<(), String> {
        self.write(line).map_err(|error| {
            // Where this fails too, the next line is written over what is left of this one.
            let _ = self.cut();
            error.to_string()
        })
    }

    /// Makes the journal short again if it has grown too long for what it says. Where that fails it goes on growing.
    pub fn compact_if_grown(&mut self) -> Result<(), String> {
        if !journal::should_compact(self.bytes, self.compact_bytes) {
            return Ok(());
        }
        self.compact().inspect_err(|_| {
            let _ = fs::remove_file(with_suffix(&self.path, "new"));
            self.compact_bytes = self.bytes;
        })
    }

    fn compact(&mut self) -> Result<(), String> {
        let text = |error: io::Error| error.to_string();
        let (tokens, _) = read(&self.file, self.limits)?;
        let bytes = journal::compact(&tokens);
        let new_path = with_suffix(&self.path, "new");
        let new = open(&new_path).map_err(text)?;
        new.set_len(0).map_err(text)?;
        new.write_all_at(&bytes, 0).map_err(text)?;
        new.sync_all().map_err(text)?;
        fs::rename(&new_path, &self.path).map_err(text)?;
        self.file = new;
        self.bytes = bytes.len() as u64;
        self.compact_bytes = self.bytes;
        sync_folder(&self.path).map_err(text)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, self.bytes)?;
        self.file.sync_data()?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    fn cut(&self) -> io::Result<()> {
        self.file.set_len(self.bytes)
    }
}

/// Opens a file that only its owner may read, or makes it.
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
}

fn read(file: &File, limits: Limits) -> Result<(Tokens, journal::End), String> {
    let mut tokens = Tokens::new(limits);
    let mut replay = Replay::default();
    let mut piece = vec![0; READ_BYTES];
    let mut at = 0;
    loop {
        let bytes = match file.read_at(&mut piece, at) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => other.map_err(|error| error.to_string())?,
        };
        if bytes == 0 {
            break;
        }
        at += bytes as u64;
        let mut input = &piece[..bytes];
        while let Some(records) = replay
            .read(&mut input)
            .map_err(|damage| damage.to_string())?
        {
            for record in records {
                record.apply(&mut tokens).map_err(|full| full.to_string())?;
            }
        }
    }
    let end = replay.finish().map_err(|damage| damage.to_string())?;
    Ok((tokens, end))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    name.into()
}

/// A file's name is on disk when its folder is.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}
