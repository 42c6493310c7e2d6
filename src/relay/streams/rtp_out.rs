//! The way out of a stream to its UDP clients: what is due to them, and the datagrams that are on
//! their way.
//!
//! MPEG-TS from a body is taken from the stream's buffer at a cursor of its own, at the pace of its
//! clock; RTP from a source goes out as it came. A datagram is made once, however many clients it
//! goes to.
//!
//! Held at the most for a stream: what is on its way ([`post`]) and the clock references of a pacer
//! ([`Pacing`], 96 KiB).

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use super::draining::rest_time;
use super::{Feed, Streams};
use crate::format::Format;
use crate::gate::Destination;
use crate::moment::Moment;
use crate::post::{LETTER_BYTES_MAX, Post};
use crate::relay::counts::Count;
use crate::relay::desk::Desk;
use crate::relay::{Level, LiveId};
use crate::rtp::{Batch, DATAGRAM_BYTES, Pacing, Packetiser};
use crate::stream::Told;

/// Datagrams for UDP clients who get the same: all of `datagram_bytes` but perhaps the last, one
/// behind the other.
#[derive(Clone, Copy, Debug)]
pub struct Datagrams<'a> {
    /// Where they go, all of them to each: at least one.
    pub to: &'a [SocketAddr],
    /// The datagrams.
    pub bytes: &'a [u8],
    /// The size of each but the last: at least 1.
    pub datagram_bytes: usize,
}

/// A stream's UDP clients, and what they get.
#[derive(Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct RtpOut {
    /// The clients, and what is on its way to them.
    pub post: Post,
    /// The way of MPEG-TS, if the stream is that, or may be.
    pub transport: Option<Transport>,
    /// It stands in the queue of those who have something to send.
    #[cfg_attr(feature = "handover", serde(skip))]
    pub is_queued: bool,
    /// A source that is gone leaves a rest, which is sent until then.
    pub rest_until: Option<Moment>,
}

/// MPEG-TS on its way from the buffer into datagrams.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct Transport {
    /// When the next datagrams are due.
    pub pacing: Pacing,
    packetiser: Packetiser,
    /// The next byte of the stream that goes out.
    pub cursor: u64,
    /// Since when packets wait for their datagram to be filled.
    waiting_since: Option<Moment>,
    /// All that was due has gone out; what comes is gathered until then. However a source cuts what
    /// it sends, its clients get as many datagrams with a call.
    rests_until: Option<Moment>,
    timestamp_offset: u32,
}

/// How long packets wait for their datagram to be filled.
const FILL_TIME: Duration = Duration::from_millis(100);

impl Datagrams<'_> {
    /// How many go out, to all together.
    pub fn count(&self) -> usize {
        self.bytes.len().div_ceil(self.datagram_bytes) * self.to.len()
    }
}

impl RtpOut {
    /// Whether nothing is on its way.
    pub fn is_empty(&self) -> bool {
        self.post.is_empty()
    }

    /// The source is gone; what is left up to `newest` goes out still, for its time.
    pub fn finish(&mut self, newest: u64, now: Moment) {
        if let Some(transport) = &mut self.transport {
            transport.pacing.finish();
            let rest_bytes = newest.saturating_sub(transport.cursor);
            self.rest_until = Some(now + rest_time(rest_bytes));
        } else {
            self.post.finish();
        }
    }

    /// Whether all up to `newest` is out.
    pub fn is_over(&self, newest: u64) -> bool {
        let is_over = |transport: &Transport| transport.is_over(newest);
        self.is_empty() && self.transport.as_ref().is_none_or(is_over)
    }

    /// Nobody gets anything any more, and nothing is held.
    pub fn clear(&mut self) {
        self.post.clear();
        (self.transport, self.rest_until) = (None, None);
    }

    /// Bytes that its allocations take.
    pub fn held_bytes(&self) -> usize {
        let transport = self.transport.as_ref();
        self.post.held_bytes()
            + transport.map_or(0, |transport| {
                transport.pacing.held_bytes() + transport.packetiser.held_bytes()
            })
    }

    /// What is due of the transport stream becomes a letter. `lend` gives the bytes from an offset
    /// on, as many as lie together.
    pub fn write<'a>(
        &mut self,
        now: Moment,
        has_ended: bool,
        lend: impl Fn(u64, usize) -> &'a [u8],
    ) {
        let Some(transport) = &mut self.transport else {
            return;
        };
        let mut batch = Batch::default();
        let is_padded = self.post.has_corrections();
        let is_over = transport.write(now, has_ended, is_padded, &mut batch, lend);
        self.post.send(batch.bytes);
        if is_over {
            self.post.finish();
        }
    }
}

impl Transport {
    /// From `cursor` on, with a source identifier and first numbers out of `random`.
    pub fn new(cursor: u64, random: u64) -> Transport {
        Transport {
            pacing: Pacing::new(cursor),
            packetiser: Packetiser::new(random as u32, (random >> 32) as u16),
            cursor,
            waiting_since: None,
            rests_until: None,
            timestamp_offset: (random >> 16) as u32,
        }
    }

    /// Says whether that was the last of it.
    fn write<'a>(
        &mut self,
        now: Moment,
        has_ended: bool,
        is_padded: bool,
        batch: &mut Batch,
        lend: impl Fn(u64, usize) -> &'a [u8],
    ) -> bool {
        if self.rests_until.is_some_and(|until| now < until) {
            return false;
        }
        let due = self.pacing.due(now);
        let timestamp = self.timestamp(now);
        while self.cursor < due && batch.bytes.len() + DATAGRAM_BYTES <= LETTER_BYTES_MAX {
            let room = LETTER_BYTES_MAX - batch.bytes.len() - DATAGRAM_BYTES;
            let bytes = lend(self.cursor, ((due - self.cursor) as usize).min(room.max(1)));
            if bytes.is_empty() {
                // Overwritten: the pacer lost its place, which only a bound on all buffers together
                // can do.
                self.cursor = due;
                self.packetiser.skip();
                break;
            }
            self.packetiser.push(bytes, timestamp, batch);
            self.cursor += bytes.len() as u64;
        }
        if self.cursor == due {
            self.rests_until = self.pacing.group_time().map(|time| now + time);
        }
        let is_over = has_ended && self.cursor == due && self.pacing.is_over();
        if !batch.bytes.is_empty() || !self.packetiser.has_waiting() {
            self.waiting_since = None;
        }
        if self.packetiser.has_waiting() {
            let since = *self.waiting_since.get_or_insert(now);
            if is_over || now.since(since) >= FILL_TIME {
                self.packetiser.flush(is_padded, batch);
                self.waiting_since = None;
            }
        }
        is_over
    }

    /// The time at which these datagrams leave, in ticks of 90 kHz (RFC 2250 section 2).
    fn timestamp(&self, now: Moment) -> u32 {
        let ticks = (now.since_start().as_micros() * 9 / 100) as u32;
        ticks.wrapping_add(self.timestamp_offset)
    }

    /// Whether what was told of it can be, of a stream whose newest byte is this one.
    #[cfg(feature = "handover")]
    pub fn fits(&self, newest: u64) -> bool {
        self.pacing.fits(newest) && self.packetiser.fits() && self.cursor <= newest
    }

    /// When there is something to do, if nothing arrives.
    pub fn deadline(&self, now: Moment) -> Option<Moment> {
        let resting = self.rests_until.filter(|until| now < *until);
        let flush = self.waiting_since.map(|since| since + FILL_TIME);
        let due = self.pacing.deadline(now).map(|at| resting.unwrap_or(at));
        let flush = flush.map(|at| resting.map_or(at, |until| at.max(until)));
        due.into_iter().chain(flush).min()
    }

    /// Whether all up to `newest` is out.
    pub fn is_over(&self, newest: u64) -> bool {
        self.cursor >= newest && self.pacing.is_over() && !self.packetiser.has_waiting()
    }
}

impl Streams {
    /// A stream goes out to these addresses from now on, but not to its own source: by itself, or
    /// by its shadow.
    pub fn set_clients(&mut self, id: LiveId, clients: Rc<[Destination]>, desk: &mut Desk) {
        let sent = self.sendable(id, !clients.is_empty(), desk);
        if sent != id {
            self.set_own_clients(id, Rc::new([]), desk);
        }
        self.set_own_clients(sent, clients, desk);
        self.tend_shadow(sent, desk);
    }

    fn set_own_clients(&mut self, id: LiveId, clients: Rc<[Destination]>, desk: &mut Desk) {
        let Some(live) = self.lives.get_mut(id) else {
            return;
        };
        let source = live.source;
        let address = match source {
            Feed::Rtp(address) => Some(address),
            Feed::Http(_) | Feed::Held { .. } | Feed::Shadow | Feed::Gone => None,
        };
        let random = || desk.draw();
        // The rest of what a source has sent is not for it either.
        let not_for = match source {
            Feed::Held { .. } | Feed::Gone => live.rtp_out.post.source(),
            Feed::Http(_) | Feed::Rtp(_) | Feed::Shadow => address,
        };
        live.rtp_out.post.set_clients(clients, not_for, random);
        let has_ended = live.stream.end().is_some();
        let is_over =
            live.rtp_out.post.client_count() == 0 || live.rtp_out.is_over(live.stream.newest());
        if has_ended && is_over {
            self.end_rest(id, desk);
        } else if live.rtp_out.post.client_count() == 0 {
            live.rtp_out.transport = None;
            self.resume(id, desk);
        } else {
            self.begin_transport(id, desk);
        }
    }

    /// What comes of a body from now on goes out to its UDP clients, if it has any and may be
    /// MPEG-TS; of a shadow when it has caught up: they are to see what is live.
    pub(super) fn begin_transport(&mut self, id: LiveId, desk: &mut Desk) {
        let is_behind = self.is_behind(id);
        if let Some(live) = self.lives.get_mut(id)
            && !is_behind
            && live.needs_transport()
        {
            live.rtp_out.transport = Some(Transport::new(live.stream.newest(), desk.draw()));
            self.rearm(id, desk);
        }
    }

    /// Media of a body has arrived: its UDP clients get what is due of it.
    pub(super) fn feed_rtp_out(&mut self, id: LiveId, bytes: &[u8], desk: &mut Desk) {
        let now = desk.now();
        let Some(live) = self.lives.get_mut(id) else {
            return;
        };
        if let Some(transport) = &mut live.rtp_out.transport {
            transport.pacing.feed(bytes, now);
            self.pump(id, desk);
        }
    }

    /// What is due of a transport stream becomes datagrams, once those before are out.
    pub(super) fn pump(&mut self, id: LiveId, desk: &mut Desk) {
        let now = desk.now();
        let Some(live) = self.lives.get_mut(id) else {
            return;
        };
        match live.stream.told() {
            _ if live.is_undecided() => return,
            Told::Known(Format::MpegTs) => {}
            Told::Undecided | Told::Known(_) | Told::Unknown => {
                live.rtp_out.transport = None;
                self.resume(id, desk);
                return self.forget_if_over(id, desk);
            }
        }
        if live.rtp_out.is_empty() {
            let has_ended = live.stream.end().is_some();
            let stream = &live.stream;
            live.rtp_out.write(now, has_ended, |from, bytes_max| {
                stream.slice(from, bytes_max)
            });
        }
        if !self.is_ahead(id, desk) {
            self.resume(id, desk);
        }
        self.post(id);
        self.rearm(id, desk);
        self.forget_if_over(id, desk);
    }

    /// Whether a body is so far ahead of its clock that it must not be read.
    pub(super) fn is_ahead(&self, id: LiveId, desk: &Desk) -> bool {
        let held_bytes_max = desk.settings().limits.stream.buffer_bytes as u64 / 2;
        let lives = self.with_shadows(id).filter_map(|id| self.lives.get(id));
        lives.into_iter().any(|live| {
            let transport = live.rtp_out.transport.as_ref();
            transport.is_some_and(|transport| {
                live.stream.newest().saturating_sub(transport.cursor) >= held_bytes_max
            })
        })
    }

    pub(super) fn post(&mut self, id: LiveId) {
        if let Some(live) = self.lives.get_mut(id)
            && !live.rtp_out.is_empty()
            && !live.rtp_out.is_queued
        {
            live.rtp_out.is_queued = true;
            self.posting.push_back(id);
        }
    }

    /// The letter that a stream sends to some of its clients.
    pub fn datagrams(&self, id: LiveId) -> Option<Datagrams<'_>> {
        let (to, bytes, datagram_bytes) = self.lives.get(id)?.rtp_out.post.letter()?;
        Some(Datagrams {
            to,
            bytes,
            datagram_bytes,
        })
    }

    /// A stream with a letter for some of its clients.
    pub fn next_posting(&mut self, desk: &mut Desk) -> Option<LiveId> {
        while let Some(&id) = self.posting.front() {
            let live = self.lives.get_mut(id);
            if live.is_some_and(|live| live.rtp_out.post.next_clients()) {
                // One after the other, so that no stream waits for the clients of another.
                self.posting.rotate_left(1);
                self.posted = Some(id);
                return Some(id);
            }
            self.posting.pop_front();
            if let Some(live) = self.lives.get_mut(id) {
                live.rtp_out.is_queued = false;
                self.pump(id, desk);
            }
        }
        None
    }

    /// So many of the datagrams that were sent last were not taken, for each whom they were for.
    pub fn not_taken(&mut self, counts: &[usize], desk: &mut Desk) {
        let last = self.posted.take();
        if counts.is_empty() {
            return;
        }
        desk.count(Count::Unsent, counts.iter().sum::<usize>() as u64);
        if let Some(live) = last.and_then(|id| self.lives.get_mut(id)) {
            live.rtp_out.post.not_taken(counts);
        }
    }

    /// Tells of a stream that cannot go out by RTP, once.
    pub fn tell_of_transport(&mut self, id: LiveId, desk: &mut Desk) {
        let Some(live) = self.lives.get(id) else {
            return;
        };
        let fault = live.rtp_fault(desk);
        if let Some(fault) = fault.filter(|_| live.rtp_out.post.client_count() > 0) {
            let digest = live.session.digest();
            desk.log(
                Level::Warn,
                format_args!("event=no-rtp session={digest} detail=\"{fault}\""),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::mpegts::{PACKET_BYTES, SYNC_BYTE};

    const PACKETS_PER_MS: usize = 5;

    /// A second of packets, of which every hundredth has the clock.
    fn second() -> Vec<u8> {
        let mut bytes = Vec::new();
        for number in 0..1000 * PACKETS_PER_MS {
            let mut packet = [0xff; PACKET_BYTES];
            packet[..4].copy_from_slice(&[SYNC_BYTE, 1, 0, 0x10]);
            if number % 100 == 0 {
                let base = (number / PACKETS_PER_MS * 90) as u32;
                packet[3] = 0x30;
                packet[4..6].copy_from_slice(&[7, 0x10]);
                packet[6..10].copy_from_slice(&(base >> 1).to_be_bytes());
                packet[10] = (base as u8 & 1) << 7 | 0x7e;
            }
            bytes.extend(packet);
        }
        bytes
    }

    /// A source that sends every packet by itself costs no more calls than one that sends the same
    /// in great pieces, and all goes out.
    #[test]
    fn what_comes_in_small_pieces_goes_out_in_groups() {
        let bytes = second();
        for pieces_per_ms in [1, PACKETS_PER_MS] {
            let mut transport = Transport::new(0, 7);
            let (mut letters, mut sent, mut newest) = (0, 0, 0);
            for step in 0..1500 * pieces_per_ms {
                let elapsed = Duration::from_micros((1000 * step / pieces_per_ms) as u64);
                let now = Moment::START + elapsed;
                let end = bytes
                    .len()
                    .min((step + 1) * PACKETS_PER_MS / pieces_per_ms * PACKET_BYTES);
                transport.pacing.feed(&bytes[newest..end], now);
                newest = end;
                if step == 1000 * pieces_per_ms {
                    transport.pacing.finish();
                }
                let mut batch = Batch::default();
                transport.write(
                    now,
                    step > 1000 * pieces_per_ms,
                    false,
                    &mut batch,
                    |from, most| &bytes[from as usize..newest.min(from as usize + most)],
                );
                letters += usize::from(!batch.bytes.is_empty());
                sent += batch.bytes.len() / DATAGRAM_BYTES;
            }
            assert!(transport.is_over(bytes.len() as u64));
            assert_eq!(sent, bytes.len() / (DATAGRAM_BYTES - 12));
            assert!((95..=110).contains(&letters), "{letters}");
        }
    }
}
