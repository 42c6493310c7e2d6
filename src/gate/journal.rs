//! The journal of the token table: the text of a token file. Files are opened, written and synced
//! elsewhere.
//!
//! ```text
//! tollgate-tokens 1
//! [{"set":"demo","udp":[["192.0.2.7:5004"],["p.example:5004","192.0.2.8:5004"]]}] e6c31972
//! [{"revoke":"demo"},{"set":"other","http":"in"}] f3d4f3fe
//! [{"set":"key","http":"out","for":"other","expires":1795312800},{"time":1795309200}] 4ef1b4c1
//! [{"set":"new","http":"both"},{"forget":"key"}] b7527b69
//! ```
//!
//! The first line names the format and its version. Each further line has the changes that were
//! written together, as a JSON array, then a space and the CRC-32 (IEEE 802.3) of the JSON in eight
//! lower-case hexadecimal digits. Replaying all changes on an empty table gives the table.
//!
//! `set` puts tuples into a session, with all their terms. `forget` removes an `http` tuple to make
//! room. `revoke` removes all tuples of a session. Version 0.2 wrote `add`, which extends an `http`
//! tuple; it can still be read.
//!
//! `udp` lists clients as the call gave them. A name is followed by its addresses, so a restart
//! changes nothing. A client that does not get plain RTP has a prefix and a space: `udp
//! 192.0.2.7:5004`, `5x10 p.example:5004`.
//!
//! `for`, `expires`, `ends`, `max_viewers`, `max_bitrate` and `note` are the terms of `http`; times
//! are in Unix seconds. `time` is the latest time of the server, so that a clock that was set back
//! cannot make an expired token valid again.
//!
//! A line is written only when the line before is on disk. So a crash can damage the last line
//! only. That line is dropped, since no caller has got an answer for it. Damage in any other line
//! is an error.

use std::fmt::{self, Display, Formatter};
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::grant::{Direction, Grant, Note, Terms};
use super::record::{Entry, Record};
use super::session_id::SessionId;
use super::tokens::Tokens;
use super::transport::Transport;
use super::tuple::{ADDRESSES_MAX, Kind, RtpTuple};
use super::udp_clients::UdpClient;
use crate::time::UnixTime;

/// The first line.
pub const HEADER: &[u8] = b"tollgate-tokens 1\n";
/// Beginning of the first line in every version.
const HEADER_BEGINNING: &[u8] = b"tollgate-tokens ";
/// Bytes of the first line that are searched for its end.
const HEADER_BYTES_MAX: usize = 64;
/// Longest line.
const LINE_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Clients in a record, and records in a line, of a compacted journal.
const RUN_CLIENTS_MAX: usize = 1024;
const LINE_RECORDS: usize = 64;
/// Smaller journals are not compacted.
const COMPACT_BYTES_MIN: u64 = 64 * 1024;

/// A record as JSON. It has exactly one of `set`, `add`, `forget`, `revoke` and `time`. Other
/// fields go with `set` and `add` only, and terms with `http` only.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(skip_serializing_if = "Option::is_none")]
    set: Option<SessionId>,
    #[serde(skip_serializing)]
    add: Option<SessionId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    forget: Option<SessionId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revoke: Option<SessionId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    http: Option<String>,
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    opens: Option<SessionId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ends: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_viewers: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_bitrate: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<Note>,
    /// For each client its text, and if that is a name its addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    udp: Vec<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<u64>,
}

impl From<&Record> for Written {
    fn from(record: &Record) -> Written {
        let name = Some(record.session().clone());
        match record {
            Record::Set { http, rtp, .. } => Written {
                set: name,
                udp: rtp.iter().map(write_client).collect(),
                ..http.as_ref().map_or_else(Written::default, write_grant)
            },
            // Only old journals have it, so it is never written.
            Record::Join { grant, .. } => Written {
                add: name,
                ..write_grant(grant)
            },
            Record::Forget { .. } => Written {
                forget: name,
                ..Written::default()
            },
            Record::Revoke { .. } => Written {
                revoke: name,
                ..Written::default()
            },
        }
    }
}

fn write_grant(grant: &Grant) -> Written {
    let terms = &grant.terms;
    let seconds = |stamp: Option<UnixTime>| stamp.map(|stamp| stamp.unix_seconds);
    Written {
        http: Some(grant.direction.name().to_owned()),
        opens: terms.opens.clone(),
        expires: seconds(terms.expires),
        ends: seconds(terms.ends),
        max_viewers: terms.viewers_max,
        max_bitrate: terms.bits_per_second_max,
        note: terms.note.clone(),
        ..Written::default()
    }
}

fn write_client(tuple: &RtpTuple) -> Vec<String> {
    let client = match tuple.transport {
        Transport::Rtp(None) => tuple.client.to_string(),
        Transport::Rtp(Some(_)) | Transport::Bare => {
            format!("{} {}", tuple.transport, tuple.client)
        }
    };
    let mut written = vec![client];
    if tuple.client.address().is_none() {
        written.extend(tuple.addresses.iter().map(SocketAddr::to_string));
    }
    written
}

fn read_client(written: &[String]) -> Option<RtpTuple> {
    let (client, addresses) = written.split_first()?;
    let (transport, client) = match client.split_once(' ') {
        Some((transport, client)) => (Transport::parse(transport)?, client),
        None => (Transport::Rtp(None), client.as_str()),
    };
    let client = UdpClient::parse(client.as_bytes()).ok()?;
    let addresses = match client.address() {
        Some(address) => vec![address],
        None => addresses
            .iter()
            .take(ADDRESSES_MAX)
            .map(|address| address.parse().ok())
            .collect::<Option<_>>()?,
    };
    Some(RtpTuple {
        client,
        transport,
        addresses,
    })
}

/// Reads a field that may be absent. If it is there, it must be valid.
fn read_if<T, U>(written: Option<T>, read: impl FnOnce(T) -> Option<U>) -> Option<Option<U>> {
    match written {
        None => Some(None),
        Some(written) => read(written).map(Some),
    }
}

/// Reads a time. `None`: its year has more than four digits, which no version writes.
fn read_stamp(unix_seconds: u64) -> Option<UnixTime> {
    Some(UnixTime { unix_seconds }).filter(|stamp| *stamp <= UnixTime::MAX)
}

impl Written {
    fn has_terms(&self) -> bool {
        let numbers = [self.expires, self.ends, self.max_bitrate];
        let has_number = numbers.iter().any(Option::is_some) || self.max_viewers.is_some();
        has_number || self.opens.is_some() || self.note.is_some()
    }

    /// Adds the record to the entry. Returns `None` if the record is not valid.
    fn add_to(self, entry: &mut Entry) -> Option<()> {
        let is_bare = self.http.is_none() && self.udp.is_empty() && !self.has_terms();
        let is_good = self.http.is_some() || !self.has_terms();
        let is_addition = is_good && !is_bare;
        match (&self.set, &self.add, &self.forget, &self.revoke, self.time) {
            (Some(session), None, None, None, None) if is_addition => {
                let session = session.clone();
                let (http, rtp) = self.into_tuples()?;
                entry.records.push(Record::Set { session, http, rtp });
            }
            (None, Some(session), None, None, None) if is_addition => {
                let (session, name) = (session.clone(), session.clone());
                let (http, rtp) = self.into_tuples()?;
                let join = http.map(|grant| Record::Join {
                    session: name,
                    grant,
                });
                let http = None;
                let set = (!rtp.is_empty()).then_some(Record::Set { session, http, rtp });
                entry.records.extend(join.into_iter().chain(set));
            }
            (None, None, Some(session), None, None) if is_bare => {
                let session = session.clone();
                entry.records.push(Record::Forget { session });
            }
            (None, None, None, Some(session), None) if is_bare => {
                let session = session.clone();
                entry.records.push(Record::Revoke { session });
            }
            (None, None, None, None, Some(time)) if is_bare && entry.time.is_none() => {
                entry.time = Some(read_stamp(time)?);
            }
            _ => return None,
        }
        Some(())
    }

    fn into_tuples(self) -> Option<(Option<Grant>, Vec<RtpTuple>)> {
        let clients = self.udp.iter().map(|client| read_client(client));
        let rtp = clients.collect::<Option<_>>()?;
        let terms = Terms {
            opens: self.opens,
            expires: read_if(self.expires, read_stamp)?,
            ends: read_if(self.ends, read_stamp)?,
            viewers_max: self.max_viewers,
            bits_per_second_max: self.max_bitrate,
            note: self.note,
        };
        let direction = read_if(self.http, |name| Direction::parse(&name))?;
        Some((direction.map(|direction| Grant { direction, terms }), rtp))
    }
}

/// Returns the line for changes that are made together, with the time of the last one.
pub fn encode(records: &[Record], time: Option<UnixTime>) -> Vec<u8> {
    let time = time.map(|time| Written {
        time: Some(time.unix_seconds),
        ..Written::default()
    });
    let written: Vec<Written> = records.iter().map(Written::from).chain(time).collect();
    // Serialising strings cannot fail.
    sealed(serde_json::to_vec(&written).unwrap_or_default())
}

/// Returns the line for a JSON text.
pub fn sealed(json: Vec<u8>) -> Vec<u8> {
    let mut line = json;
    let seal = seal(&line);
    line.extend_from_slice(&seal);
    line.push(b'\n');
    line
}

/// Parses a line without its line end.
fn decode(line: &[u8]) -> Result<Entry, LineError> {
    let parts = line
        .len()
        .checked_sub(SEAL_BYTES)
        .and_then(|middle| line.split_at_checked(middle));
    let (json, sealed) = parts.ok_or(LineError::Checksum)?;
    if seal(json) != sealed {
        return Err(LineError::Checksum);
    }
    let written: Vec<Written> = serde_json::from_slice(json).map_err(|_| LineError::NoRecord)?;
    let mut entry = Entry::default();
    let mut written = written.into_iter();
    let read = written.try_for_each(|written| written.add_to(&mut entry));
    read.map(|()| entry).ok_or(LineError::NoRecord)
}

const SEAL_BYTES: usize = 9;

/// Returns the text that follows a record's JSON.
fn seal(json: &[u8]) -> Vec<u8> {
    format!(" {:08x}", crc32(json)).into_bytes()
}

/// Returns the CRC-32 of IEEE 802.3, as in zlib and PNG.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        let index = (crc as u8) ^ byte;
        crc >> 8 ^ CRC_TABLE[usize::from(index)]
    };
    !bytes.iter().fold(!0, step)
}

const CRC_TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut crc = index as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = crc >> 1 ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 };
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
};

/// Returns records that build this table, with the tuples in their order. Adjacent tuples of a
/// session share a record.
fn records(tokens: &Tokens) -> Vec<Record> {
    let mut records: Vec<Record> = Vec::new();
    for tuple in tokens.after(0) {
        match (&tuple.kind, records.last_mut()) {
            (Kind::Rtp(client), Some(Record::Set { session, rtp, .. }))
                if *session == tuple.session && rtp.len() < RUN_CLIENTS_MAX =>
            {
                rtp.push(client.clone());
            }
            (Kind::Rtp(client), _) => records.push(Record::Set {
                session: tuple.session.clone(),
                http: None,
                rtp: vec![client.clone()],
            }),
            // The `http` tuple of a record comes first.
            (Kind::Http(grant), _) => records.push(Record::Set {
                session: tuple.session.clone(),
                http: Some(grant.clone()),
                rtp: Vec::new(),
            }),
        }
    }
    records
}

/// Returns the shortest journal of this table.
pub fn compact(tokens: &Tokens) -> Vec<u8> {
    let mut bytes = HEADER.to_vec();
    if tokens.time() > UnixTime::default() {
        bytes.extend_from_slice(&encode(&[], Some(tokens.time())));
    }
    for records in records(tokens).chunks(LINE_RECORDS) {
        bytes.extend_from_slice(&encode(records, None));
    }
    bytes
}

/// Returns whether to compact a journal that had `live_bytes` after the last compaction. Each
/// compaction needs as many bytes appended as it writes.
pub fn should_compact(file_bytes: u64, live_bytes: u64) -> bool {
    file_bytes > COMPACT_BYTES_MIN && file_bytes / 2 > live_bytes
}

/// Reads a journal in pieces.
#[derive(Debug, Default)]
pub struct Replay {
    /// The line that is arriving. A complete line stays here if its checksum is wrong, until more
    /// bytes show that it was not the last one.
    line: Vec<u8>,
    /// Offset of the line.
    offset: u64,
    /// Number of lines in front of it.
    lines: u64,
}

/// The end of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Bytes of complete lines. 0: even the first line is missing.
    pub whole_bytes: u64,
    /// Bytes of an incomplete line after them, which a crash has left.
    pub torn_bytes: u64,
}

impl Replay {
    /// Returns the changes of the next line; `None` if all input is used. After an error the
    /// journal cannot be read further.
    pub fn read(&mut self, input: &mut &[u8]) -> Result<Option<Entry>, Damage> {
        while !input.is_empty() {
            if self.line.ends_with(b"\n") {
                return Err(self.damage(LineError::Checksum));
            }
            let end = input.iter().position(|byte| *byte == b'\n');
            let (piece, rest) = input.split_at(end.map_or(input.len(), |end| end + 1));
            self.check_length(piece.len())?;
            self.line.extend_from_slice(piece);
            *input = rest;
            if end.is_some()
                && let Some(entry) = self.line_ended()?
            {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    /// Returns where the complete lines end.
    pub fn finish(self) -> Result<End, Damage> {
        if self.lines == 0 && !HEADER.starts_with(&self.line) {
            return Err(self.damage(LineError::NotJournal));
        }
        // These bytes only occur at the beginning of a line, since quotes in strings are escaped.
        // So two lines were merged here, and an interrupted write cannot do that.
        if self.line.windows(3).skip(1).any(|three| three == b"[{\"") {
            return Err(self.damage(LineError::Checksum));
        }
        Ok(End {
            whole_bytes: self.offset,
            torn_bytes: self.line.len() as u64,
        })
    }

    fn check_length(&self, more: usize) -> Result<(), Damage> {
        let (bytes_max, fault) = match self.lines {
            0 => (HEADER_BYTES_MAX, LineError::NotJournal),
            _ => (LINE_BYTES_MAX, LineError::TooLong),
        };
        if more > bytes_max.saturating_sub(self.line.len()) {
            return Err(self.damage(fault));
        }
        Ok(())
    }

    fn line_ended(&mut self) -> Result<Option<Entry>, Damage> {
        let line = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
        let entry = if self.lines > 0 {
            match decode(line) {
                Ok(entry) => Some(entry),
                // The line is kept. If more bytes follow, it is not the last line.
                Err(LineError::Checksum) => return Ok(None),
                Err(fault) => return Err(self.damage(fault)),
            }
        } else if self.line == HEADER {
            None
        } else if line.starts_with(HEADER_BEGINNING) {
            return Err(self.damage(LineError::Version));
        } else {
            return Err(self.damage(LineError::NotJournal));
        };
        self.offset += self.line.len() as u64;
        self.lines += 1;
        self.line.clear();
        Ok(entry)
    }

    fn damage(&self, fault: LineError) -> Damage {
        Damage {
            line: self.lines + 1,
            offset: self.offset,
            fault,
        }
    }
}

/// Where and why a journal cannot be read. Prints nothing of its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Number of the line, from 1.
    pub line: u64,
    /// Offset of the line, in bytes.
    pub offset: u64,
    /// The error in the line.
    pub fault: LineError,
}

/// Errors in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineError {
    NotJournal,
    Version,
    Checksum,
    NoRecord,
    TooLong,
}

impl Display for Damage {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let (line, offset) = (self.line, self.offset);
        match self.fault {
            LineError::NotJournal => formatter.write_str("it is not a token file of tollgate"),
            LineError::Version => formatter.write_str("it is of another version of tollgate"),
            LineError::Checksum => write!(
                formatter,
                "line {line}, at byte {offset}, is damaged: its checksum is wrong"
            ),
            LineError::NoRecord => write!(
                formatter,
                "line {line}, at byte {offset}, holds a change that this version does not know"
            ),
            LineError::TooLong => write!(
                formatter,
                "line {line}, at byte {offset}, is damaged: no line has more than {LINE_BYTES_MAX} bytes"
            ),
        }
    }
}

impl std::error::Error for Damage {}

#[cfg(test)]
mod tests;
