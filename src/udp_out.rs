//! Datagrams that wait to be sent to the UDP clients of a stream, and each client's counters.
//!
//! Datagrams of one kind are collected in batches. A batch is made once, and goes to every client
//! that gets this kind: RTP, MPEG-TS without RTP, or the corrections of one matrix ([`Fec`]), which
//! go to higher ports.
//!
//! Memory: at most [`WAITING_BYTES_MAX`], one more batch of each kind (60 KiB; half of that for
//! corrections), 61 KiB for each of [`MATRICES_MAX`] matrices, and 40 bytes per client. The gate
//! refuses clients that would need more matrices.

#[cfg(feature = "handover")]
mod handover;

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;

use serde::Serialize;

use crate::gate::{Destination, FecMatrix, MATRICES_MAX, Transport};
use crate::rtp::{self, DATAGRAM_BYTES, Fec, Side};

/// The UDP clients of a stream, and the batches that wait to be sent to them.
#[derive(Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct UdpOut {
    /// All clients. The list is the token table's, unless it has changed while a batch was sent. Then
    /// it is a copy, in which the clients that have got the batch come first.
    clients: Rc<[Destination]>,
    /// The counters of each client, in the order of `clients`.
    figures: Vec<ClientFigures>,
    /// The client that is also the stream's source. It gets nothing.
    source: Option<SocketAddr>,
    /// Number of clients without the source.
    client_count: usize,
    /// The first batch is being sent.
    batches: VecDeque<DatagramBatch>,
    /// Memory of the batches.
    #[cfg_attr(feature = "handover", serde(skip))]
    waiting_bytes: usize,
    /// Index of the next client that gets the first batch.
    next_index: usize,
    /// A generator for each matrix that a client asked for.
    corrections: Vec<(FecMatrix, Fec)>,
    /// Whether a client gets MPEG-TS without RTP.
    has_bare: bool,
    /// Addresses that the first batch is being sent to; at most [`AT_ONCE_MAX`].
    #[cfg_attr(feature = "handover", serde(skip))]
    to: Vec<SocketAddr>,
    /// Index in `clients` of each address in `to`.
    #[cfg_attr(feature = "handover", serde(skip))]
    indexes: Vec<usize>,
    /// Bytes of all datagrams that were sent.
    bytes_sent: u64,
}

/// Datagrams that go to several UDP clients. All have `datagram_bytes` except the last, which may
/// be shorter.
#[derive(Clone, Copy, Debug)]
pub struct Datagrams<'a> {
    /// The clients, at least one. Each gets all datagrams.
    pub to: &'a [SocketAddr],
    /// The datagrams, one after another.
    pub bytes: &'a [u8],
    /// Size of each datagram but the last, at least 1.
    pub datagram_bytes: usize,
}

impl Datagrams<'_> {
    /// Returns how many datagrams this is, over all clients.
    pub fn count(&self) -> usize {
        self.bytes.len().div_ceil(self.datagram_bytes) * self.to.len()
    }
}

/// A client's counters.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[cfg_attr(feature = "handover", derive(serde::Deserialize))]
pub struct ClientFigures {
    /// Datagrams that the kernel accepted.
    pub sent: u64,
    /// Datagrams that the kernel refused, or that the queue had no space for.
    pub dropped: u64,
}

/// Datagrams of one size that go out with one system call.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
struct DatagramBatch {
    /// Decides which clients get the batch.
    kind: Content,
    /// The datagrams, one behind the other.
    #[cfg_attr(feature = "handover", serde(with = "crate::handover::bytes"))]
    bytes: Vec<u8>,
    /// Size of each datagram; the last one may be shorter.
    datagram_bytes: usize,
}

/// What the datagrams of a batch contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
enum Content {
    /// RTP, or RTCP from a source.
    Rtp,
    /// MPEG-TS without RTP.
    Bare,
    /// Corrections of a matrix, for its columns or rows.
    Corrections(FecMatrix, Side),
}

/// Largest batch: the kernel takes as much in one call.
pub const BATCH_BYTES_MAX: usize = 45 * DATAGRAM_BYTES;
/// Memory of the batches that wait; further datagrams are dropped.
pub const WAITING_BYTES_MAX: usize = 512 * 1024;
/// Clients that get a batch with one system call.
const AT_ONCE_MAX: usize = 64;
/// Number of batches, from the newest on, that are searched for one that a datagram fits into.
const BATCHES_TRIED_MAX: usize = 16;

impl Content {
    fn is_for(self, transport: Transport) -> bool {
        match (self, transport) {
            (Content::Rtp, Transport::Rtp(_)) | (Content::Bare, Transport::Bare) => true,
            (Content::Corrections(of, _), Transport::Rtp(Some(asked))) => of == asked,
            (Content::Rtp, Transport::Bare) | (Content::Bare, Transport::Rtp(_)) => false,
            (Content::Corrections(..), Transport::Rtp(None) | Transport::Bare) => false,
        }
    }

    fn port_offset(self) -> u16 {
        match self {
            Content::Rtp | Content::Bare => 0,
            Content::Corrections(_, Side::Columns) => FecMatrix::COLUMNS_ABOVE,
            Content::Corrections(_, Side::Rows) => FecMatrix::ROWS_ABOVE,
        }
    }
}

impl UdpOut {
    /// Chooses the clients that the first batch goes to next. Returns `false` if no batch is left.
    pub fn next_clients(&mut self) -> bool {
        self.to.clear();
        self.indexes.clear();
        let at_once = self.clients.len().min(AT_ONCE_MAX);
        self.to.reserve_exact(at_once);
        self.indexes.reserve_exact(at_once);
        while let Some(batch) = self.batches.front() {
            let count = batch.bytes.len().div_ceil(batch.datagram_bytes) as u64;
            let first = self.next_index;
            let clients = self.clients.get(first..).unwrap_or_default();
            let figures = self.figures.get_mut(first..).unwrap_or_default();
            for (place, (client, figures)) in (first..).zip(clients.iter().zip(figures)) {
                if self.to.len() >= AT_ONCE_MAX {
                    break;
                }
                self.next_index = place + 1;
                if self.source == Some(client.address) || !batch.kind.is_for(client.transport) {
                    continue;
                }
                let mut to = client.address;
                // A client whose port is too high for this cannot have a matrix.
                to.set_port(to.port().saturating_add(batch.kind.port_offset()));
                figures.sent = figures.sent.saturating_add(count);
                self.to.push(to);
                self.indexes.push(place);
            }
            let bytes = (batch.bytes.len() * self.to.len()) as u64;
            self.bytes_sent = self.bytes_sent.saturating_add(bytes);
            if !self.to.is_empty() {
                return true;
            }
            self.next_index = 0;
            self.waiting_bytes -= batch.memory_bytes();
            self.batches.pop_front();
        }
        false
    }

    /// Returns the client that is also the source, and gets nothing.
    pub fn source(&self) -> Option<SocketAddr> {
        self.source
    }

    /// Counts datagrams of the first batch that the kernel refused, for each client that
    /// [`UdpOut::next_clients`] chose last.
    pub fn not_taken(&mut self, counts: &[usize]) {
        for (place, count) in self.indexes.drain(..).zip(counts) {
            if let Some(figures) = self.figures.get_mut(place) {
                figures.sent = figures.sent.saturating_sub(*count as u64);
                figures.dropped = figures.dropped.saturating_add(*count as u64);
            }
        }
    }

    /// Returns the first batch, with the clients that were chosen for it.
    pub fn batch(&self) -> Option<Datagrams<'_>> {
        let batch = self.batches.front()?;
        Some(Datagrams {
            to: &self.to,
            bytes: &batch.bytes,
            datagram_bytes: batch.datagram_bytes,
        })
    }

    /// Returns whether no batch waits.
    pub fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// Returns the number of clients that get something.
    pub fn client_count(&self) -> usize {
        self.client_count
    }

    /// Returns the bytes of all datagrams that were sent.
    pub fn bytes_sent(&self) -> u64 {
        self.bytes_sent
    }

    /// Returns the counters of each client that gets something.
    pub fn figures(&self) -> impl Iterator<Item = (Destination, ClientFigures)> {
        let all = self.clients.iter().zip(&self.figures);
        let those = all.filter(|(client, _)| self.source != Some(client.address));
        those.map(|(client, figures)| (*client, *figures))
    }

    /// Returns whether corrections are made. Then every datagram must have the same size.
    pub fn has_corrections(&self) -> bool {
        !self.corrections.is_empty()
    }

    /// Queues a source's datagram as it is, and its payload `transport` for clients that get
    /// MPEG-TS without RTP. Returns `false` if it had to drop one of them.
    #[must_use]
    pub fn forward(&mut self, datagram: &[u8], transport: Option<&[u8]>) -> bool {
        if self.client_count == 0 || datagram.is_empty() {
            return true;
        }
        let mut fits = self.put(Content::Rtp, datagram);
        if let Some(payload) = transport.filter(|payload| self.has_bare && !payload.is_empty()) {
            fits &= self.put(Content::Bare, payload);
        }
        if transport.is_some() && fits {
            self.correct(datagram, datagram.len());
        }
        fits
    }

    /// Queues RTP that this server has made, when no batch waits. Each datagram has
    /// [`DATAGRAM_BYTES`]; the last one may be shorter.
    pub fn send(&mut self, datagrams: Vec<u8>) {
        if datagrams.is_empty() || self.client_count == 0 {
            return;
        }
        self.correct(&datagrams, DATAGRAM_BYTES);
        if self.has_bare {
            self.push_front(DatagramBatch {
                kind: Content::Bare,
                bytes: rtp::without_headers(&datagrams),
                datagram_bytes: rtp::PAYLOAD_BYTES,
            });
        }
        let mut clients = self.clients.iter();
        if clients.any(|client| Content::Rtp.is_for(client.transport)) {
            self.push_front(DatagramBatch {
                kind: Content::Rtp,
                bytes: datagrams,
                datagram_bytes: DATAGRAM_BYTES,
            });
        }
    }

    /// Puts a batch in front of its corrections.
    fn push_front(&mut self, batch: DatagramBatch) {
        self.waiting_bytes += batch.memory_bytes();
        self.batches.push_front(batch);
    }

    /// Queues the corrections that are complete after these datagrams, which have one size.
    fn correct(&mut self, datagrams: &[u8], datagram_bytes: usize) {
        let mut corrections = std::mem::take(&mut self.corrections);
        for (matrix, fec) in &mut corrections {
            for datagram in datagrams.chunks(datagram_bytes) {
                fec.protect(datagram, |side, packet| {
                    self.put(Content::Corrections(*matrix, side), packet);
                });
            }
        }
        self.corrections = corrections;
    }

    /// Queues the remaining corrections, at the end of the stream.
    pub fn finish(&mut self) {
        let mut corrections = std::mem::take(&mut self.corrections);
        for (matrix, fec) in &mut corrections {
            fec.finish(|packet| {
                self.put(Content::Corrections(*matrix, Side::Columns), packet);
            });
        }
        self.corrections = corrections;
    }

    /// Queues a datagram. Adds it to a batch of the same content and size that is not being sent
    /// yet, if there is one. Returns `false` if too much waits: then each client that would have
    /// got the datagram counts it as dropped.
    fn put(&mut self, kind: Content, datagram: &[u8]) -> bool {
        if self.waiting_bytes + datagram.len() + 2 * size_of::<DatagramBatch>() > WAITING_BYTES_MAX
        {
            for (client, figures) in self.clients.iter().zip(&mut self.figures) {
                let gets_it = self.source != Some(client.address) && kind.is_for(client.transport);
                figures.dropped = figures.dropped.saturating_add(u64::from(gets_it));
            }
            return false;
        }
        let being_sent = usize::from(self.next_index > 0);
        let open = self.batches.iter_mut().skip(being_sent).rev();
        let last = open
            .take(BATCHES_TRIED_MAX)
            .find(|batch| batch.kind == kind);
        match last {
            Some(batch) if batch.takes(datagram) => {
                self.waiting_bytes -= batch.memory_bytes();
                batch.add(datagram);
                self.waiting_bytes += batch.memory_bytes();
            }
            Some(_) | None => {
                let batch = DatagramBatch {
                    kind,
                    bytes: datagram.to_vec(),
                    datagram_bytes: datagram.len(),
                };
                self.waiting_bytes += batch.memory_bytes();
                self.batches.push_back(batch);
            }
        }
        true
    }

    /// Removes all clients and batches.
    pub fn clear(&mut self) {
        *self = UdpOut {
            bytes_sent: self.bytes_sent,
            ..UdpOut::default()
        };
    }

    /// Replaces the clients. `source` gets nothing, if it is one of them. No address may come
    /// twice. New corrections begin with sequence numbers from `random`.
    pub fn set_clients(
        &mut self,
        clients: Rc<[Destination]>,
        source: Option<SocketAddr>,
        mut random: impl FnMut() -> u64,
    ) {
        let all = self.clients.iter().zip(&self.figures);
        let known: HashMap<SocketAddr, ClientFigures> = all
            .map(|(client, figures)| (client.address, *figures))
            .collect();
        self.put_in_order(clients);
        // The indexes now belong to other clients.
        self.indexes.clear();
        let clients = || self.clients.iter();
        self.source = source.filter(|source| clients().any(|client| client.address == *source));
        let figures = clients().map(|client| known.get(&client.address).copied());
        self.figures = figures.map(Option::unwrap_or_default).collect();
        self.client_count = self.clients.len() - usize::from(self.source.is_some());
        self.has_bare = clients().any(|client| client.transport == Transport::Bare);
        let asked = || clients().filter_map(|client| client.transport.matrix());
        self.corrections
            .retain(|(made, _)| asked().any(|matrix| matrix == *made));
        for matrix in asked() {
            let is_made = self.corrections.iter().any(|(made, _)| *made == matrix);
            if !is_made && self.corrections.len() < MATRICES_MAX {
                let fec = Fec::new(matrix.columns(), matrix.rows(), random() as u32);
                self.corrections.push((matrix, fec));
            }
        }
        self.corrections.shrink_to_fit();
    }

    /// Sets the clients. Those that have got the first batch come first, so that they do not get it
    /// again.
    fn put_in_order(&mut self, clients: Rc<[Destination]>) {
        if self.next_index == 0 {
            self.clients = clients;
            return;
        }
        let had = self.clients.iter().take(self.next_index);
        let had: HashSet<SocketAddr> = had.map(|client| client.address).collect();
        let (mut first, rest): (Vec<Destination>, Vec<Destination>) = clients
            .iter()
            .partition(|client| had.contains(&client.address));
        self.next_index = first.len();
        first.extend(rest);
        self.clients = first.into();
    }
}

impl DatagramBatch {
    /// Returns its memory in bytes, its share of the queue included. The queue's capacity is at
    /// most twice its length.
    fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + 2 * size_of::<DatagramBatch>()
    }

    /// Appends a datagram. The capacity doubles, up to [`BATCH_BYTES_MAX`].
    fn add(&mut self, datagram: &[u8]) {
        let length = self.bytes.len() + datagram.len();
        if length > self.bytes.capacity() {
            let capacity = (2 * length).min(BATCH_BYTES_MAX).max(length);
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
        self.bytes.extend_from_slice(datagram);
    }

    fn takes(&self, datagram: &[u8]) -> bool {
        self.datagram_bytes == datagram.len()
            && self.bytes.len().is_multiple_of(self.datagram_bytes)
            && self.bytes.len() + datagram.len() <= BATCH_BYTES_MAX
    }
}

#[cfg(test)]
mod tests;
