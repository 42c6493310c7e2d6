//! The token file: the table's journal (see [`crate::gate::journal`]) on disk. Once the server
//! runs, only the disk thread uses it.
//!
//! ```text
//! PATH         the journal, appended to and synced; only its owner may read it
//! PATH.lock    locked while a server uses the journal, as the journal itself is; never written
//! PATH.new     the compacted journal, until it replaces the journal; never read
//! ```
//!
//! After a crash, PATH is the old or the compacted journal, complete except for a last line that no
//! caller has got an answer for. A link is followed once, at the start. All three files are in the
//! folder of the journal itself.
//!
//! Other programs may change the journal while the server runs. So the server checks before each
//! line that its journal is still at PATH and has all of its bytes.
#![cfg_attr(
    not(feature = "handover"),
    allow(dead_code, reason = "a successor alone asks how the file is")
)]

use std::cmp::Ordering;
use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::gate::journal::{self, Replay};
use crate::gate::{Limits, Tokens};
use crate::time::UnixTime;

/// An open journal.
pub struct TokenFile {
    file: File,
    /// Holds the lock. Copies of this descriptor hold it, too.
    lock: File,
    state: JournalState,
}

/// What a successor needs besides the two descriptors.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct JournalState {
    path: PathBuf,
    /// Length of the journal. Further bytes are from a failed write, and do not count.
    bytes: u64,
    /// Its length after the last compaction, also if that failed.
    compact_bytes: u64,
    /// Whether the folder on disk names this file, and not the previous one.
    is_in_place: bool,
}

const READ_BYTES: usize = 64 * 1024;

impl TokenFile {
    /// Opens a journal, or creates one. Returns the table with its latest time, and the bytes of a
    /// damaged last line that were dropped. Errors are sentences that name the file.
    pub fn open(
        path: &Path,
        limits: Limits,
        now: UnixTime,
    ) -> Result<(TokenFile, Tokens, u64), String> {
        let failed =
            |error: io::Error| format!("cannot use the token file '{}': {error}", path.display());
        let place = settle(path).map_err(failed)?;
        let in_use = |error: TryLockError| match error {
            TryLockError::WouldBlock => format!(
                "the token file '{}' is in use by another server",
                path.display()
            ),
            TryLockError::Error(error) => failed(error),
        };
        let lock = open(&with_suffix(&place, "lock")).map_err(failed)?;
        lock.try_lock().map_err(in_use)?;
        let file = open(&place).map_err(failed)?;
        // The other server may use another name of the file, and so another lock.
        file.try_lock().map_err(in_use)?;
        let unusable = |error: String| {
            format!(
                "cannot use the token file '{}': {error}; the file was not changed",
                path.display()
            )
        };
        let (mut tokens, end) = read(&file, u64::MAX).map_err(unusable)?;
        tokens.set_time(now);
        let tuples = tokens.len();
        let tokens = tokens
            .with_limits(limits)
            .map_err(|full| unusable(full.to_string()))?;
        let state = JournalState {
            path: place,
            bytes: end.whole_bytes,
            compact_bytes: 0,
            is_in_place: false,
        };
        let mut token_file = TokenFile { file, lock, state };
        token_file.take_over(end).map_err(failed)?;
        // Removed tuples must not return at the next start.
        if tokens.len() < tuples {
            token_file
                .replace(&journal::compact(&tokens))
                .map_err(failed)?;
        }
        Ok((token_file, tokens, end.torn_bytes))
    }

    /// Returns the folder of its files.
    pub fn folder(&self) -> &Path {
        self.state.path.parent().unwrap_or(Path::new("/"))
    }

    /// Returns a copy. Both write to the same file, so only one of them may be used.
    pub fn share(&self) -> io::Result<TokenFile> {
        Ok(TokenFile {
            file: self.file.try_clone()?,
            lock: self.lock.try_clone()?,
            state: self.state.clone(),
        })
    }

    /// Returns the parts for a successor: the descriptors of journal and lock, and the rest.
    pub fn parts(&self) -> ([BorrowedFd<'_>; 2], &JournalState) {
        ([self.file.as_fd(), self.lock.as_fd()], &self.state)
    }

    /// Builds the token file from another process' parts, if it is the file of this path.
    pub fn of_parts(
        path: &Path,
        [file, lock]: [OwnedFd; 2],
        state: JournalState,
    ) -> Result<TokenFile, String> {
        match fs::canonicalize(path) {
            Ok(settled) if settled == state.path => {}
            Ok(_) | Err(_) => {
                return Err(format!(
                    "the other server's token file is '{}', and this one's is '{}'; give the same --token-file",
                    state.path.display(),
                    path.display()
                ));
            }
        }
        Ok(TokenFile {
            file: file.into(),
            lock: lock.into(),
            state,
        })
    }

    /// Syncs a journal that was just read: a server may have been killed between writing and
    /// syncing.
    fn take_over(&mut self, end: journal::End) -> io::Result<()> {
        if end.whole_bytes == 0 {
            return self.replace(journal::HEADER);
        }
        if self.file.metadata()?.permissions().mode() & 0o077 != 0 {
            self.file.set_permissions(Permissions::from_mode(MODE))?;
        }
        self.cut()?;
        self.sync_place()
    }

    /// Appends a line and syncs it. If that fails, the journal is unchanged.
    pub fn append(&mut self, line: &[u8]) -> Result<(), String> {
        self.keep_in_place()?;
        self.write(line).map_err(|error| {
            // If this fails, too, the next line overwrites the rest of this one.
            let _ = self.cut();
            error.to_string()
        })
    }

    /// Compacts the journal if it has grown enough. If that fails, it continues to grow.
    pub fn compact_if_grown(&mut self) -> Result<(), String> {
        if !journal::should_compact(self.state.bytes, self.state.compact_bytes) {
            return Ok(());
        }
        let compacted = self.compact();
        self.state.compact_bytes = self.state.bytes;
        compacted
    }

    fn compact(&mut self) -> Result<(), String> {
        let (tokens, _) = read(&self.file, self.state.bytes)?;
        self.replace(&journal::compact(&tokens)).map_err(|error| {
            // If the disk is full, this leaves no less space than before.
            let _ = remove_unfinished(&with_suffix(&self.state.path, "new"));
            error.to_string()
        })
    }

    /// Replaces the journal.
    fn replace(&mut self, bytes: &[u8]) -> io::Result<()> {
        let new_path = with_suffix(&self.state.path, "new");
        remove_unfinished(&new_path)?;
        let new = options().create_new(true).open(&new_path)?;
        new.try_lock()?;
        new.write_all_at(bytes, 0)?;
        new.sync_all()?;
        fs::rename(&new_path, &self.state.path)?;
        self.file = new;
        self.state.bytes = bytes.len() as u64;
        self.state.is_in_place = false;
        self.sync_place()
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.sync_place()?;
        self.file.write_all_at(bytes, self.state.bytes)?;
        self.file.sync_data()?;
        self.state.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Checks that the journal is at its path and has all of its bytes. Writes it again if it was
    /// removed, and removes what others have appended.
    fn keep_in_place(&mut self) -> Result<(), String> {
        let failed = |error: io::Error| error.to_string();
        let path = &self.state.path;
        let there = match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return self.compact(),
            found => found.map_err(failed)?,
        };
        let own = self.file.metadata().map_err(failed)?;
        let (bytes, left) = (self.state.bytes, own.len());
        if (there.dev(), there.ino()) != (own.dev(), own.ino()) {
            return Err(format!(
                "'{}' is another file by now; restart the server to use that one",
                path.display()
            ));
        }
        match left.cmp(&bytes) {
            Ordering::Less => Err(format!(
                "'{}' has {left} bytes left of {bytes}; restart the server to use these",
                path.display()
            )),
            Ordering::Equal => Ok(()),
            Ordering::Greater => self.cut().map_err(failed),
        }
    }

    /// Syncs the folder of a new file. Until then a crash could lose the whole file.
    fn sync_place(&mut self) -> io::Result<()> {
        if !self.state.is_in_place {
            File::open(self.folder())?.sync_all()?;
            self.state.is_in_place = true;
        }
        Ok(())
    }

    /// Removes bytes after the last valid line, so that they cannot return after a crash.
    fn cut(&self) -> io::Result<()> {
        self.file.set_len(self.state.bytes)?;
        self.file.sync_all()
    }
}

/// Only the owner may read the journal: session ids are secrets.
const MODE: u32 = 0o600;

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(MODE);
    options
}

/// Opens a file, or creates it.
fn open(path: &Path) -> io::Result<File> {
    options().create(true).truncate(false).open(path)
}

/// Removes a compacted journal that a crash left unfinished. Any other file of this name is an
/// error, and stays.
fn remove_unfinished(path: &Path) -> io::Result<()> {
    let is_file = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?.is_file(),
    };
    let mut beginning = [0; journal::HEADER.len()];
    let bytes = match is_file {
        // The sandbox allows the disk thread this call, but not read(2).
        true => File::open(path)?.read_at(&mut beginning, 0)?,
        false => 0,
    };
    match is_file && journal::HEADER.starts_with(&beginning[..bytes]) {
        true => fs::remove_file(path),
        false => Err(io::Error::other(format!(
            "'{}' is not a token file, and was not changed; move it away, or give another path",
            path.display()
        ))),
    }
}

/// Returns the path of a file with all links resolved. Creates the file if it is missing. Under
/// another path it would have another lock, and replacing it would replace a link.
fn settle(path: &Path) -> io::Result<PathBuf> {
    if !open(path)?.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    fs::canonicalize(path)
}

/// Returns the table that the journal's first `bytes_max` bytes describe. The limits do not apply:
/// the table may exceed them before later entries remove tokens.
fn read(file: &File, bytes_max: u64) -> Result<(Tokens, journal::End), String> {
    let mut tokens = Tokens::new(Limits::NONE);
    let mut replay = Replay::default();
    let mut piece = vec![0; READ_BYTES];
    let mut at = 0;
    loop {
        let bytes = match file.read_at(&mut piece, at) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => other.map_err(|error| error.to_string())?,
        };
        let left = usize::try_from(bytes_max - at).unwrap_or(usize::MAX);
        let mut input = &piece[..bytes.min(left)];
        if input.is_empty() {
            break;
        }
        at += input.len() as u64;
        while let Some(entry) = replay
            .read(&mut input)
            .map_err(|damage| damage.to_string())?
        {
            tokens.replay(&entry);
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
