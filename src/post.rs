//! What is on its way to the UDP clients of a stream: letters of datagrams, each made once for all
//! who get the same, and what each client has got of them.
//!
//! RTP goes to whoever gets RTP; without its headers to whoever gets MPEG-TS alone; the corrections
//! of a matrix to whoever asked for that ([`Fec`]), some ports above.
//!
//! Held at the most: [`POST_BYTES_MAX`] and a letter of each kind (60 KiB each, corrections half of
//! that), 61 KiB for each of [`MATRICES_MAX`] matrices, and 40 bytes for a client. Of more matrices
//! than that no corrections are made, which the gate sees to.

#[cfg(feature = "handover")]
mod handover;

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;

use serde::Serialize;

use crate::gate::{Destination, FecMatrix, MATRICES_MAX, Transport};
use crate::rtp::{self, DATAGRAM_BYTES, Fec, Side};

/// The clients of a stream, and their letters.
#[derive(Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub struct Post {
    /// As the tokens lend it.
    #[cfg_attr(feature = "handover", serde(with = "crate::handover::shared"))]
    clients: Rc<[Destination]>,
    /// What each of them has got; as many as there are clients.
    figures: Vec<ClientFigures>,
    /// The address of one of them that gets nothing: the source.
    source: Option<SocketAddr>,
    /// How many get something.
    client_count: usize,
    letters: VecDeque<DatagramBatch>,
    #[cfg_attr(feature = "handover", serde(skip))]
    letters_bytes: usize,
    /// Which client gets the first letter next: none before it does.
    next_place: usize,
    /// One for each matrix that a client asked for.
    corrections: Vec<(FecMatrix, Fec)>,
    /// Some client gets MPEG-TS alone.
    has_bare: bool,
    /// Who gets the first letter now, and their places among the clients: at most
    /// [`AT_ONCE_MAX`].
    #[cfg_attr(feature = "handover", serde(skip))]
    to: Vec<SocketAddr>,
    #[cfg_attr(feature = "handover", serde(skip))]
    places: Vec<usize>,
    bytes_sent: u64,
}

/// What a client has got.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[cfg_attr(feature = "handover", derive(serde::Deserialize))]
pub struct ClientFigures {
    /// Datagrams that the kernel took.
    pub sent: u64,
    /// Those that it did not take, or that there was no room for.
    pub dropped: u64,
}

/// Datagrams that go out with one call.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
struct DatagramBatch {
    kind: Kind,
    #[cfg_attr(feature = "handover", serde(with = "crate::handover::bytes"))]
    bytes: Vec<u8>,
    datagram_bytes: usize,
}

/// What a letter's datagrams are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
enum Kind {
    /// RTP, or RTCP of a source.
    Rtp,
    /// MPEG-TS alone.
    Bare,
    Corrections(FecMatrix, Side),
}

/// Datagrams that go out together: what the kernel takes in one call.
pub const LETTER_BYTES_MAX: usize = 45 * DATAGRAM_BYTES;
/// What waits to be sent of RTP that came in, in bytes that it holds; more is dropped.
pub const POST_BYTES_MAX: usize = 512 * 1024;
/// A letter goes to so many clients with one call.
const AT_ONCE_MAX: usize = 64;
/// Among so many letters one is sought to which a datagram can be added.
const LETTERS_TRIED_MAX: usize = 16;

impl Kind {
    fn is_for(self, transport: Transport) -> bool {
        match (self, transport) {
            (Kind::Rtp, Transport::Rtp(_)) | (Kind::Bare, Transport::Bare) => true,
            (Kind::Corrections(of, _), Transport::Rtp(Some(asked))) => of == asked,
            (Kind::Rtp, Transport::Bare) | (Kind::Bare, Transport::Rtp(_)) => false,
            (Kind::Corrections(..), Transport::Rtp(None) | Transport::Bare) => false,
        }
    }

    fn port_offset(self) -> u16 {
        match self {
            Kind::Rtp | Kind::Bare => 0,
            Kind::Corrections(_, Side::Columns) => FecMatrix::COLUMNS_ABOVE,
            Kind::Corrections(_, Side::Rows) => FecMatrix::ROWS_ABOVE,
        }
    }
}

impl Post {
    /// Finds out to whom the first letter goes next; says no where there is none.
    pub fn next_clients(&mut self) -> bool {
        self.to.clear();
        self.places.clear();
        let at_once = self.clients.len().min(AT_ONCE_MAX);
        self.to.reserve_exact(at_once);
        self.places.reserve_exact(at_once);
        while let Some(letter) = self.letters.front() {
            let count = letter.bytes.len().div_ceil(letter.datagram_bytes) as u64;
            let first = self.next_place;
            let clients = self.clients.get(first..).unwrap_or_default();
            let figures = self.figures.get_mut(first..).unwrap_or_default();
            for (place, (client, figures)) in (first..).zip(clients.iter().zip(figures)) {
                if self.to.len() >= AT_ONCE_MAX {
                    break;
                }
                self.next_place = place + 1;
                if self.source == Some(client.address) || !letter.kind.is_for(client.transport) {
                    continue;
                }
                let mut to = client.address;
                // No matrix is given to a client whose ports would not reach so far.
                to.set_port(to.port().saturating_add(letter.kind.port_offset()));
                figures.sent += count;
                self.to.push(to);
                self.places.push(place);
            }
            self.bytes_sent += (letter.bytes.len() * self.to.len()) as u64;
            if !self.to.is_empty() {
                return true;
            }
            self.next_place = 0;
            self.letters_bytes -= letter.held_bytes();
            self.letters.pop_front();
        }
        false
    }

    /// The client that is the source, and gets nothing.
    pub fn source(&self) -> Option<SocketAddr> {
        self.source
    }

    /// So many datagrams of the first letter were not taken, for each whom it went to last.
    pub fn not_taken(&mut self, counts: &[usize]) {
        for (place, count) in self.places.drain(..).zip(counts) {
            if let Some(figures) = self.figures.get_mut(place) {
                figures.sent = figures.sent.saturating_sub(*count as u64);
                figures.dropped += *count as u64;
            }
        }
    }

    /// The letter that is being sent, and to whom: its bytes, and the size of its datagrams.
    pub fn letter(&self) -> Option<(&[SocketAddr], &[u8], usize)> {
        let letter = self.letters.front()?;
        Some((&self.to, &letter.bytes, letter.datagram_bytes))
    }

    /// Whether nothing is on its way.
    pub fn is_empty(&self) -> bool {
        self.letters.is_empty()
    }

    /// How many get something.
    pub fn client_count(&self) -> usize {
        self.client_count
    }

    /// Bytes of datagrams.
    pub fn bytes_sent(&self) -> u64 {
        self.bytes_sent
    }

    /// What each has got who gets something.
    pub fn figures(&self) -> impl Iterator<Item = (Destination, ClientFigures)> {
        let all = self.clients.iter().zip(&self.figures);
        let those = all.filter(|(client, _)| self.source != Some(client.address));
        those.map(|(client, figures)| (*client, *figures))
    }

    /// Whether every datagram has to be of the same size.
    pub fn has_corrections(&self) -> bool {
        !self.corrections.is_empty()
    }

    /// A datagram of a source goes out as it came, and its payload to those who get MPEG-TS alone.
    /// Says no where too much waits already.
    #[must_use]
    pub fn forward(&mut self, datagram: &[u8], transport: Option<&[u8]>) -> bool {
        if self.client_count == 0 || datagram.is_empty() {
            return true;
        }
        let mut fits = self.put(Kind::Rtp, datagram);
        if let Some(payload) = transport.filter(|payload| self.has_bare && !payload.is_empty()) {
            fits &= self.put(Kind::Bare, payload);
        }
        if transport.is_some() && fits {
            self.correct(datagram, datagram.len());
        }
        fits
    }

    /// RTP that was made here, each datagram of [`DATAGRAM_BYTES`] but perhaps the last, once
    /// nothing is on its way.
    pub fn send(&mut self, datagrams: Vec<u8>) {
        if datagrams.is_empty() || self.client_count == 0 {
            return;
        }
        self.correct(&datagrams, DATAGRAM_BYTES);
        if self.has_bare {
            self.push_front(DatagramBatch {
                kind: Kind::Bare,
                bytes: rtp::without_headers(&datagrams),
                datagram_bytes: rtp::PAYLOAD_BYTES,
            });
        }
        let mut clients = self.clients.iter();
        if clients.any(|client| Kind::Rtp.is_for(client.transport)) {
            self.push_front(DatagramBatch {
                kind: Kind::Rtp,
                bytes: datagrams,
                datagram_bytes: DATAGRAM_BYTES,
            });
        }
    }

    /// Before the corrections of it.
    fn push_front(&mut self, letter: DatagramBatch) {
        self.letters_bytes += letter.held_bytes();
        self.letters.push_front(letter);
    }

    /// What of corrections these datagrams of one size bring about.
    fn correct(&mut self, datagrams: &[u8], datagram_bytes: usize) {
        let mut corrections = std::mem::take(&mut self.corrections);
        for (matrix, fec) in &mut corrections {
            for datagram in datagrams.chunks(datagram_bytes) {
                fec.protect(datagram, |side, packet| {
                    self.put(Kind::Corrections(*matrix, side), packet);
                });
            }
        }
        self.corrections = corrections;
    }

    /// Nothing more comes: the corrections that wait for packets to go out behind go out now.
    pub fn finish(&mut self) {
        let mut corrections = std::mem::take(&mut self.corrections);
        for (matrix, fec) in &mut corrections {
            fec.finish(|packet| {
                self.put(Kind::Corrections(*matrix, Side::Columns), packet);
            });
        }
        self.corrections = corrections;
    }

    /// A datagram goes behind those of its kind, unless too much waits: then all who are to get it
    /// have one dropped. Several of one size share a letter that is not being sent yet.
    fn put(&mut self, kind: Kind, datagram: &[u8]) -> bool {
        if self.letters_bytes + datagram.len() + 2 * size_of::<DatagramBatch>() > POST_BYTES_MAX {
            self.drop_one(kind);
            return false;
        }
        let being_sent = usize::from(self.next_place > 0);
        let open = self.letters.iter_mut().skip(being_sent).rev();
        let last = open
            .take(LETTERS_TRIED_MAX)
            .find(|letter| letter.kind == kind);
        match last {
            Some(letter) if letter.takes(datagram) => {
                self.letters_bytes -= letter.held_bytes();
                letter.add(datagram);
                self.letters_bytes += letter.held_bytes();
            }
            Some(_) | None => self.push(DatagramBatch {
                kind,
                bytes: datagram.to_vec(),
                datagram_bytes: datagram.len(),
            }),
        }
        true
    }

    fn drop_one(&mut self, kind: Kind) {
        for (client, figures) in self.clients.iter().zip(&mut self.figures) {
            figures.dropped += u64::from(kind.is_for(client.transport));
        }
    }

    fn push(&mut self, letter: DatagramBatch) {
        self.letters_bytes += letter.held_bytes();
        self.letters.push_back(letter);
    }

    /// Bytes that its allocations take.
    pub fn held_bytes(&self) -> usize {
        let letters = self.letters.iter().map(|letter| letter.bytes.capacity());
        let corrections = self.corrections.iter().map(|(_, fec)| fec.held_bytes());
        letters.sum::<usize>()
            + corrections.sum::<usize>()
            + self.letters.capacity() * size_of::<DatagramBatch>()
            + self.to.capacity() * size_of::<SocketAddr>()
            + self.places.capacity() * size_of::<usize>()
            + self.corrections.capacity() * size_of::<(FecMatrix, Fec)>()
            + self.own_clients_bytes()
    }

    /// What its list of clients takes, unless that is lent by the tokens, and their figures.
    pub fn own_clients_bytes(&self) -> usize {
        let figures = self.figures.capacity() * size_of::<ClientFigures>();
        let is_own = Rc::strong_count(&self.clients) == 1;
        figures
            + if is_own {
                size_of_val(&*self.clients)
            } else {
                0
            }
    }

    /// Nobody gets anything any more, and nothing is held.
    pub fn clear(&mut self) {
        *self = Post {
            bytes_sent: self.bytes_sent,
            ..Post::default()
        };
    }

    /// These clients but the source, and no others, from now on. None is there twice. `random` is
    /// for the numbers of new corrections.
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
        // Their places are others' now.
        self.places.clear();
        let is_client = |source: &SocketAddr| {
            let mut clients = self.clients.iter();
            clients.any(|client| client.address == *source)
        };
        self.source = source.filter(is_client);
        let figures = self.clients.iter().map(|client| known.get(&client.address));
        self.figures = figures
            .map(|known| known.copied().unwrap_or_default())
            .collect();
        self.client_count = self.clients.len() - usize::from(self.source.is_some());
        let mut carriages = self.clients.iter().map(|client| client.transport);
        self.has_bare = carriages.any(|transport| transport == Transport::Bare);
        let asked = |matrix: &FecMatrix| {
            let mut clients = self.clients.iter();
            clients.any(|client| client.transport.matrix() == Some(*matrix))
        };
        self.corrections.retain(|(matrix, _)| asked(matrix));
        for matrix in self
            .clients
            .iter()
            .filter_map(|client| client.transport.matrix())
        {
            let is_made = self.corrections.iter().any(|(made, _)| *made == matrix);
            if !is_made && self.corrections.len() < MATRICES_MAX {
                let fec = Fec::new(matrix.columns(), matrix.rows(), random() as u32);
                self.corrections.push((matrix, fec));
            }
        }
        self.corrections.shrink_to_fit();
    }

    /// Whoever has had the first letter stands in front, and does not get it again.
    fn put_in_order(&mut self, clients: Rc<[Destination]>) {
        if self.next_place == 0 {
            self.clients = clients;
            return;
        }
        let had = self.clients.iter().take(self.next_place);
        let had: HashSet<SocketAddr> = had.map(|client| client.address).collect();
        let (mut first, rest): (Vec<Destination>, Vec<Destination>) = clients
            .iter()
            .partition(|client| had.contains(&client.address));
        self.next_place = first.len();
        first.extend(rest);
        self.clients = first.into();
    }
}

impl DatagramBatch {
    /// Bytes that it takes, and those of its place in the queue, which has twice as many as are
    /// taken at the most.
    fn held_bytes(&self) -> usize {
        self.bytes.capacity() + 2 * size_of::<DatagramBatch>()
    }

    /// It grows by doubling, and never beyond what it may hold.
    fn add(&mut self, datagram: &[u8]) {
        let length = self.bytes.len() + datagram.len();
        if length > self.bytes.capacity() {
            let capacity = (2 * length).min(LETTER_BYTES_MAX).max(length);
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
        self.bytes.extend_from_slice(datagram);
    }

    fn takes(&self, datagram: &[u8]) -> bool {
        self.datagram_bytes == datagram.len()
            && self.bytes.len().is_multiple_of(self.datagram_bytes)
            && self.bytes.len() + datagram.len() <= LETTER_BYTES_MAX
    }
}

#[cfg(test)]
mod tests;
