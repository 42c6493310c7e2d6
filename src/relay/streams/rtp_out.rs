//! A stream's output to its UDP clients.
//!
//! MPEG-TS from a body is read from the stream's buffer at a cursor, at the pace of its clock. RTP
//! from a source goes out as it came. A datagram is made once for all clients.
//!
//! Memory of a stream, at most: the datagrams on their way ([`udp_out`]) and the clock references of a
//! pacer ([`Pacing`], 96 KiB).

use std::rc::Rc;
use std::time::Duration;

use super::draining::drain_time;
use super::{StreamSource, Streams};
use crate::format::Format;
use crate::gate::Destination;
use crate::relay::context::Context;
use crate::relay::counts::Count;
use crate::relay::{Level, StreamId};
use crate::rtp::{DATAGRAM_BYTES, Pacing, Packetiser};
use crate::stream::Detected;
use crate::time::Instant;
use crate::udp_out::{BATCH_BYTES_MAX, Datagrams, UdpOut};

/// A stream's UDP clients and their output.
#[derive(Default)]
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct RtpOut {
    /// The clients, and the datagrams on their way to them.
    pub udp_out: UdpOut,
    /// The output of MPEG-TS from a body, if the stream is or may be MPEG-TS.
    pub ts_output: Option<TsOutput>,
    /// The stream is in [`Streams::posting`].
    #[cfg_attr(feature = "handover", serde(skip))]
    pub is_queued: bool,
    /// After the source is gone, the rest of the stream is sent until then.
    pub drain_until: Option<Instant>,
}

/// Turns MPEG-TS from the buffer into datagrams.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct TsOutput {
    /// Decides when bytes are due.
    pub pacing: Pacing,
    packetiser: Packetiser,
    /// Offset of the next byte that goes into a datagram.
    pub cursor: u64,
    /// Since when packets wait for their datagram to fill up.
    waiting_since: Option<Instant>,
    /// No datagrams are made until then, as all due bytes are out. So a source that sends small
    /// pieces costs no more system calls than one that sends large ones.
    paused_until: Option<Instant>,
    /// More bytes are due, which the next turn looks at.
    #[cfg_attr(feature = "handover", serde(skip))]
    has_more: bool,
    /// When the source's newest bytes came.
    #[cfg_attr(feature = "handover", serde(skip))]
    fed_at: Instant,
    timestamp_offset: u32,
}

/// Longest time that packets wait for their datagram to fill up.
const FILL_TIME: Duration = Duration::from_millis(100);

/// Maximal work of a turn for the next datagrams of streams whose last ones are out. Beyond it, the
/// next turn makes them.
const POSTING_WORK_MAX: usize = 4 * BATCH_BYTES_MAX;

impl RtpOut {
    /// Returns whether no datagrams are on their way.
    pub fn is_empty(&self) -> bool {
        self.udp_out.is_empty()
    }

    /// Handles the end of the source: the bytes up to `newest` are sent for at most [`drain_time`].
    pub fn finish(&mut self, newest: u64, now: Instant) {
        if let Some(ts_output) = &mut self.ts_output {
            ts_output.pacing.finish();
            let unsent_bytes = newest.saturating_sub(ts_output.cursor);
            self.drain_until = Some(now + drain_time(unsent_bytes));
        } else {
            self.udp_out.finish();
        }
    }

    /// Returns whether all bytes up to `newest` are sent.
    pub fn is_over(&self, newest: u64) -> bool {
        let is_over = |ts_output: &TsOutput| ts_output.is_over(newest);
        self.is_empty() && self.ts_output.as_ref().is_none_or(is_over)
    }

    /// Removes all clients and datagrams.
    pub fn clear(&mut self) {
        self.udp_out.clear();
        (self.ts_output, self.drain_until) = (None, None);
    }

    /// Makes datagrams of the bytes that are due. `lend` returns bytes from an offset on, as many
    /// as are contiguous. Returns the work.
    pub fn write<'a>(
        &mut self,
        now: Instant,
        has_ended: bool,
        lend: impl Fn(u64, usize) -> &'a [u8],
    ) -> usize {
        let Some(ts_output) = &mut self.ts_output else {
            return 0;
        };
        let before = ts_output.cursor;
        let mut datagrams = Vec::new();
        let is_padded = self.udp_out.has_corrections();
        let is_over = ts_output.write(now, has_ended, is_padded, &mut datagrams, lend);
        let bytes = (ts_output.cursor - before) as usize;
        let work = bytes + ts_output.packetiser.take_work();
        self.udp_out.send(datagrams);
        if is_over {
            self.udp_out.finish();
        }
        work
    }
}

impl TsOutput {
    /// Creates the output from `cursor` on. `random` sets the SSRC and the first numbers.
    pub fn new(cursor: u64, random: u64) -> TsOutput {
        TsOutput {
            pacing: Pacing::new(cursor),
            packetiser: Packetiser::new(random as u32, (random >> 32) as u16),
            cursor,
            waiting_since: None,
            paused_until: None,
            has_more: false,
            fed_at: Instant::START,
            timestamp_offset: (random >> 16) as u32,
        }
    }

    /// Adds the next bytes of the stream. If the source sends less often than groups go out, a group
    /// that is half over leaves with these bytes. So the read and the timer are one wake-up. Returns
    /// the work.
    pub fn feed(&mut self, bytes: &[u8], now: Instant) -> usize {
        self.pacing.feed(bytes, now);
        let elapsed = now.since(self.fed_at);
        self.fed_at = now;
        if let Some(group) = self.pacing.group_time().filter(|group| elapsed >= *group) {
            self.paused_until = self.paused_until.filter(|until| *until > now + group / 2);
        }
        self.pacing.take_work()
    }

    /// Appends datagrams that are due to `datagrams`. Looks at [`BATCH_BYTES_MAX`] bytes at most, since
    /// bytes out of step may give none. Returns whether that was the last of them.
    fn write<'a>(
        &mut self,
        now: Instant,
        has_ended: bool,
        is_padded: bool,
        datagrams: &mut Vec<u8>,
        lend: impl Fn(u64, usize) -> &'a [u8],
    ) -> bool {
        self.has_more = false;
        if self.paused_until.is_some_and(|until| now < until) {
            return false;
        }
        let due = self.pacing.due(now);
        let timestamp = self.timestamp(now);
        let until = due.min(self.cursor + BATCH_BYTES_MAX as u64);
        while self.cursor < until && datagrams.len() + DATAGRAM_BYTES <= BATCH_BYTES_MAX {
            let room = BATCH_BYTES_MAX - datagrams.len() - DATAGRAM_BYTES;
            let bytes = lend(
                self.cursor,
                ((until - self.cursor) as usize).min(room.max(1)),
            );
            if bytes.is_empty() {
                // The bytes were overwritten before they were due. The bound on all buffers
                // together can do that. So may a long unit that a splicer puts out at once.
                self.cursor = due;
                self.packetiser.skip();
                break;
            }
            self.packetiser.push(bytes, timestamp, datagrams);
            self.cursor += bytes.len() as u64;
        }
        self.has_more = self.cursor < due && datagrams.is_empty();
        if self.cursor == due {
            self.paused_until = self.pacing.group_time().map(|time| now + time);
        }
        let is_over = has_ended && self.cursor == due && self.pacing.is_over();
        if !datagrams.is_empty() || !self.packetiser.has_waiting() {
            self.waiting_since = None;
        }
        if self.packetiser.has_waiting() {
            let since = *self.waiting_since.get_or_insert(now);
            if is_over || now.since(since) >= FILL_TIME {
                self.packetiser.flush(is_padded, datagrams);
                self.waiting_since = None;
            }
        }
        is_over
    }

    /// Returns the RTP timestamp of datagrams that leave now, in 90 kHz ticks (RFC 2250 section 2).
    fn timestamp(&self, now: Instant) -> u32 {
        let ticks = (now.since_start().as_micros() * 9 / 100) as u32;
        ticks.wrapping_add(self.timestamp_offset)
    }

    /// Returns whether the state that was handed over is possible, for this newest offset.
    #[cfg(feature = "handover")]
    pub fn is_valid(&self, newest: u64) -> bool {
        self.pacing.is_valid(newest) && self.packetiser.is_valid() && self.cursor <= newest
    }

    /// Returns when it has something to do, if nothing arrives before.
    pub fn deadline(&self, now: Instant) -> Option<Instant> {
        if self.has_more {
            return Some(now);
        }
        let paused = self.paused_until.filter(|until| now < *until);
        let flush = self.waiting_since.map(|since| since + FILL_TIME);
        let due = self.pacing.deadline(now).map(|at| paused.unwrap_or(at));
        let flush = flush.map(|at| paused.map_or(at, |until| at.max(until)));
        due.into_iter().chain(flush).min()
    }

    /// Returns whether all bytes up to `newest` are in datagrams.
    pub fn is_over(&self, newest: u64) -> bool {
        self.cursor >= newest && self.pacing.is_over() && !self.packetiser.has_waiting()
    }
}

impl Streams {
    /// Sets the UDP clients of a stream, which may go out remuxed. Its own source is never one.
    pub fn set_clients(&mut self, id: StreamId, clients: Rc<[Destination]>, ctx: &mut Context) {
        let sent = self.sendable(id, !clients.is_empty(), ctx);
        if sent != id {
            self.set_own_clients(id, Rc::new([]), ctx);
        }
        self.set_own_clients(sent, clients, ctx);
        self.tend_remuxed(sent, ctx);
    }

    pub(super) fn set_own_clients(
        &mut self,
        id: StreamId,
        clients: Rc<[Destination]>,
        ctx: &mut Context,
    ) {
        let Some(stream) = self.streams.get_mut(id) else {
            return;
        };
        let source = stream.source;
        let random = || ctx.random.draw();
        // A stream without a source must not go back to its last source either.
        let not_for = match source {
            StreamSource::Held { .. } | StreamSource::Gone => stream.rtp_out.udp_out.source(),
            StreamSource::Http(_) | StreamSource::Rtp(_) | StreamSource::Remuxed => {
                source.address()
            }
        };
        stream.rtp_out.udp_out.set_clients(clients, not_for, random);
        let has_ended = stream.buffer.end().is_some();
        let is_over = stream.rtp_out.udp_out.client_count() == 0
            || stream.rtp_out.is_over(stream.buffer.newest());
        if has_ended && is_over {
            self.end_drain(id, ctx);
        } else if stream.rtp_out.udp_out.client_count() == 0 {
            stream.rtp_out.ts_output = None;
            self.resume(id, ctx);
        } else {
            self.begin_transport(id, ctx);
        }
    }

    /// Begins the MPEG-TS output at the newest byte, if the stream needs it. A remuxed stream has
    /// to catch up first, so that its clients get live media.
    pub(super) fn begin_transport(&mut self, id: StreamId, ctx: &mut Context) {
        let is_catching_up = self.is_catching_up(id);
        if let Some(stream) = self.streams.get_mut(id)
            && !is_catching_up
            && stream.needs_transport()
        {
            stream.rtp_out.ts_output =
                Some(TsOutput::new(stream.buffer.newest(), ctx.random.draw()));
            stream.rearm(id, ctx);
        }
    }

    /// Makes datagrams of the bytes that are due, once the datagrams before are out.
    pub(super) fn pump(&mut self, id: StreamId, ctx: &mut Context) {
        let now = ctx.now();
        let Some(stream) = self.streams.get_mut(id) else {
            return;
        };
        match stream.buffer.detected() {
            _ if stream.is_undecided() => return,
            Detected::Known(Format::MpegTs) => {}
            Detected::Undecided | Detected::Known(_) | Detected::Unknown => {
                stream.rtp_out.ts_output = None;
                self.resume(id, ctx);
                return self.forget_if_over(id, ctx);
            }
        }
        if stream.rtp_out.is_empty() {
            let has_ended = stream.buffer.end().is_some();
            let buffer = &stream.buffer;
            self.work += stream.rtp_out.write(now, has_ended, |from, bytes_max| {
                buffer.slice(from, bytes_max)
            });
        }
        self.resume(id, ctx);
        self.queue_udp_out(id);
        self.rearm(id, ctx);
        self.forget_if_over(id, ctx);
    }

    /// Returns whether a body is so far ahead of its clock that it must not be read.
    pub(super) fn is_ahead(&self, id: StreamId, ctx: &Context) -> bool {
        let memory_bytes_max = ctx.settings().limits.stream.buffer_bytes as u64 / 2;
        self.in_all_containers(id).any(|stream| {
            let ts_output = stream.rtp_out.ts_output.as_ref();
            ts_output.is_some_and(|ts_output| {
                stream.buffer.newest().saturating_sub(ts_output.cursor) >= memory_bytes_max
            })
        })
    }

    /// Queues a stream that has datagrams for its UDP clients.
    pub(super) fn queue_udp_out(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(id)
            && !stream.rtp_out.is_empty()
            && !stream.rtp_out.is_queued
        {
            stream.rtp_out.is_queued = true;
            self.posting.push_back(id);
        }
    }

    /// Returns the datagrams of a stream that go to some of its clients now.
    pub fn datagrams(&self, id: StreamId) -> Option<Datagrams<'_>> {
        self.streams.get(id)?.rtp_out.udp_out.batch()
    }

    /// Returns the next stream with datagrams for some of its clients.
    pub fn next_posting(&mut self, ctx: &mut Context) -> Option<StreamId> {
        while let Some(&id) = self.posting.front() {
            let mut stream = self.streams.get_mut(id);
            if let Some(stream) = &mut stream
                && stream.rtp_out.udp_out.next_clients()
            {
                // Streams take turns, so that none waits for all clients of another.
                self.posting.rotate_left(1);
                self.posted = Some(id);
                return Some(id);
            }
            self.posting.pop_front();
            if let Some(stream) = stream {
                stream.rtp_out.is_queued = false;
                match &mut stream.rtp_out.ts_output {
                    Some(ts_output) if self.posting_work >= POSTING_WORK_MAX => {
                        ts_output.has_more = true;
                        self.rearm(id, ctx);
                    }
                    _ => {
                        let before = self.work;
                        self.pump(id, ctx);
                        self.posting_work += self.work - before;
                    }
                }
            }
        }
        None
    }

    /// Begins a turn of the loop.
    pub fn begin_turn(&mut self) {
        self.posting_work = 0;
    }

    /// Counts the datagrams of the last call that the kernel did not take, for each client.
    pub fn not_taken(&mut self, counts: &[usize], ctx: &mut Context) {
        let last = self.posted.take();
        if counts.is_empty() {
            return;
        }
        ctx.count(Count::Unsent, counts.iter().sum::<usize>() as u64);
        if let Some(stream) = last.and_then(|id| self.streams.get_mut(id)) {
            stream.rtp_out.udp_out.not_taken(counts);
        }
    }

    /// Logs why a stream cannot go to its UDP clients, once.
    pub fn report_transport(&mut self, id: StreamId, ctx: &mut Context) {
        let Some(stream) = self.streams.get(id) else {
            return;
        };
        let fault = stream.rtp_fault(ctx);
        if let Some(fault) = fault.filter(|_| stream.rtp_out.udp_out.client_count() > 0) {
            let digest = stream.session.digest();
            let line = format_args!("event=no-rtp session={digest} detail=\"{fault}\"");
            ctx.log(Level::Warn, stream.caused_by(), line);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::format::mpegts::{PACKET_BYTES, SYNC_BYTE};
    use crate::relay::stage::Stage;
    use crate::time::at_milliseconds as at;

    const PACKETS_PER_MS: usize = 5;

    /// Returns a second of packets. Every hundredth has a clock reference.
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

    /// A source that sends single packets costs no more calls than one that sends large pieces, and
    /// all packets go out.
    #[test]
    fn small_pieces_go_out_in_groups() {
        let bytes = second();
        for pieces_per_ms in [1, PACKETS_PER_MS] {
            let mut ts_output = TsOutput::new(0, 7);
            let (mut letters, mut sent, mut newest) = (0, 0, 0);
            for step in 0..1500 * pieces_per_ms {
                let elapsed = Duration::from_micros((1000 * step / pieces_per_ms) as u64);
                let now = Instant::START + elapsed;
                let end = bytes
                    .len()
                    .min((step + 1) * PACKETS_PER_MS / pieces_per_ms * PACKET_BYTES);
                ts_output.feed(&bytes[newest..end], now);
                newest = end;
                if step == 1000 * pieces_per_ms {
                    ts_output.pacing.finish();
                }
                let mut batch = Vec::new();
                ts_output.write(
                    now,
                    step > 1000 * pieces_per_ms,
                    false,
                    &mut batch,
                    |from, most| &bytes[from as usize..newest.min(from as usize + most)],
                );
                letters += usize::from(!batch.is_empty());
                sent += batch.len() / DATAGRAM_BYTES;
            }
            assert!(ts_output.is_over(bytes.len() as u64));
            assert_eq!(sent, bytes.len() / (DATAGRAM_BYTES - 12));
            assert!((95..=110).contains(&letters), "{letters}");
        }
    }

    /// A source that sends every 20 ms wakes the server twice in that time: one group leaves with its
    /// bytes, and one by the timer, which is up to a millisecond late.
    #[test]
    fn a_group_leaves_with_the_bytes_of_a_source_that_sends_seldom() {
        let bytes = second();
        let mut pieces = bytes.chunks(20 * PACKETS_PER_MS * PACKET_BYTES);
        let (mut way, mut now, mut wakes, mut number) = (Way::new(), at(0), 0, 0);
        while pieces.len() > 0 {
            let arrival = at(20 * number + number % 3);
            let timer = way.deadline(now).map(|at| at + Duration::from_millis(1));
            now = timer.map_or(arrival, |timer| timer.min(arrival));
            if now == arrival {
                way.feed(pieces.next().expect("a piece"), now);
                number += 1;
            }
            way.write(now);
            wakes += 1;
        }
        assert!((95..=110).contains(&wakes), "{wakes}");
    }

    /// Returns MPEG-TS without a clock, which is due at once.
    fn packets(count: usize) -> Vec<u8> {
        let mut packet = [0xff; PACKET_BYTES];
        packet[..4].copy_from_slice(&[SYNC_BYTE, 1, 0, 0x10]);
        packet.repeat(count)
    }

    /// An output, and the media of its stream.
    struct Way {
        ts_output: TsOutput,
        media: Vec<u8>,
        has_ended: bool,
    }

    impl Way {
        fn new() -> Way {
            Way {
                ts_output: TsOutput::new(0, 7),
                media: Vec::new(),
                has_ended: false,
            }
        }

        fn feed(&mut self, media: &[u8], now: Instant) {
            self.media.extend_from_slice(media);
            self.ts_output.feed(media, now);
        }

        fn finish(&mut self) {
            self.ts_output.pacing.finish();
            self.has_ended = true;
        }

        /// Returns the packets of each datagram that is due, and whether those are the last.
        fn write(&mut self, now: Instant) -> (Vec<usize>, bool) {
            let mut batch = Vec::new();
            let media = &self.media;
            let lend = |from: u64, most: usize| {
                let rest = &media[from as usize..];
                &rest[..rest.len().min(most)]
            };
            let is_over = self
                .ts_output
                .write(now, self.has_ended, false, &mut batch, lend);
            let datagrams = batch.chunks(DATAGRAM_BYTES);
            let packets = datagrams.map(|datagram| {
                let packet = crate::rtp::Packet::parse(datagram).expect("good RTP");
                packet.payload.len() / PACKET_BYTES
            });
            (packets.collect(), is_over)
        }

        fn deadline(&self, now: Instant) -> Option<Instant> {
            self.ts_output.deadline(now)
        }
    }

    /// Bytes out of step give no datagram, however many there are. A turn looks at some of them, and
    /// the next one comes at once.
    #[test]
    fn a_turn_looks_at_a_batch_of_bytes_out_of_step() {
        let mut way = Way::new();
        let media = vec![0; 1_000_000];
        way.feed(&media, at(10));
        let mut turns = 0;
        while way.ts_output.cursor < media.len() as u64 {
            let before = way.ts_output.cursor;
            assert_eq!(way.write(at(10)), (vec![], false));
            let bytes = (way.ts_output.cursor - before) as usize;
            assert!((1..=BATCH_BYTES_MAX).contains(&bytes), "{bytes}");
            let is_last = way.ts_output.cursor == media.len() as u64;
            assert_eq!(way.deadline(at(10)), (!is_last).then_some(at(10)));
            turns += 1;
        }
        assert_eq!(turns, media.len().div_ceil(BATCH_BYTES_MAX));
    }

    /// The next turn may find that nothing is due yet. Then no turn comes before the group's time.
    #[test]
    fn a_turn_that_comes_too_early_is_not_repeated() {
        let mut way = Way::new();
        way.feed(&second(), at(0));
        way.write(at(0));
        way.ts_output.paused_until = Some(at(9));
        way.ts_output.has_more = true;
        assert_eq!(way.deadline(at(5)), Some(at(5)));
        assert_eq!(way.write(at(5)), (vec![], false));
        assert_eq!(way.deadline(at(5)), Some(at(9)));
    }

    /// What all streams look at in a turn counts, too, and what they have not looked at stays due.
    #[test]
    fn streams_that_have_much_due_at_once_take_turns() {
        // Packets in step among 60 KB that are not: they make a datagram now and then, or always.
        for in_step in [3, 9] {
            take_turns(in_step);
        }
    }

    fn take_turns(in_step: usize) {
        let mut stage = Stage::new(&["--token-server=10.0.0.0/24", "--buffer=4M"]);
        stage.relay.set_rtp(SocketAddr::from(([10, 0, 0, 1], 5004)));
        let step = packets(8);
        let garbage = [packets(in_step), vec![0; 58_000]].concat().repeat(8);
        for name in 0..20 {
            let add = format!(
                "POST /api/add-token?type=http,rtp-udp&sessionid=s{name}&udp-clients=10.0.0.9:{}",
                6000 + 2 * name
            );
            let call = stage.client(&format!("{add} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
            stage.assert_status(call, 201);
            let put = format!("PUT /stream/s{name} HTTP/1.1\r\nHost: h\r\nContent-Length: 9999999");
            let source = stage.client(&format!("{put}\r\n\r\n"));
            stage.send_media(source, &step);
            stage.send_media(source, &garbage);
        }
        let read = |stage: &Stage| -> u64 {
            let all = stage.relay.streams.streams.iter();
            all.filter_map(|(_, stream)| Some(stream.rtp_out.ts_output.as_ref()?.cursor))
                .sum()
        };
        let newest = 20 * (step.len() + garbage.len()) as u64;
        let (mut before, mut turns) = (read(&stage), 0);
        while before < newest {
            stage.relay.expire(stage.now);
            while stage.relay.next_datagrams(stage.now, &[]).is_some() {}
            let now = read(&stage);
            let most = (crate::relay::READ_COST_MAX + POSTING_WORK_MAX) / 4;
            let most = (most + 3 * BATCH_BYTES_MAX) as u64;
            assert!(now - before <= most, "{} in a turn", now - before);
            (before, turns) = (now, turns + 1);
            assert!(turns < 100, "{} are left", newest - now);
        }
        assert!(turns > 5, "{turns}");
    }

    /// Packets wait until there are seven, but at most 100 ms from the first on.
    #[test]
    fn a_datagram_goes_out_when_full_or_after_100_ms() {
        let mut way = Way::new();
        assert_eq!(way.write(at(0)), (vec![], false));
        assert_eq!(way.deadline(at(0)), None);
        way.feed(&packets(3), at(10));
        assert_eq!(way.write(at(10)), (vec![], false));
        assert_eq!(way.deadline(at(10)), Some(at(110)));
        // Another packet does not extend the time.
        way.feed(&packets(1), at(50));
        assert_eq!(way.write(at(50)), (vec![], false));
        assert_eq!(way.deadline(at(50)), Some(at(110)));
        assert_eq!(way.write(at(109)), (vec![], false));
        assert_eq!(way.write(at(110)), (vec![4], false));
        assert_eq!(
            (way.deadline(at(110)), way.write(at(300))),
            (None, (vec![], false))
        );
        // The packet that is left over when a datagram is full starts a new wait.
        way.feed(&packets(5), at(400));
        assert_eq!(way.write(at(400)), (vec![], false));
        way.feed(&packets(5), at(450));
        assert_eq!(way.write(at(450)), (vec![7], false));
        assert_eq!(way.deadline(at(450)), Some(at(550)));
        assert_eq!(way.write(at(549)), (vec![], false));
        assert_eq!(way.write(at(550)), (vec![3], false));
        // If none is left over, the next packet starts a new wait.
        way.feed(&packets(2), at(600));
        assert_eq!(way.write(at(600)), (vec![], false));
        way.feed(&packets(5), at(650));
        assert_eq!(way.write(at(650)), (vec![7], false));
        way.feed(&packets(1), at(690));
        assert_eq!(way.write(at(690)), (vec![], false));
        assert_eq!(way.deadline(at(690)), Some(at(790)));
        assert_eq!(way.write(at(710)), (vec![], false));
        // After the end of the source, no packet waits.
        way.finish();
        assert!(!way.ts_output.is_over(way.media.len() as u64));
        assert_eq!(way.write(at(720)), (vec![1], true));
        let newest = way.media.len() as u64;
        let is_over = [newest - 1, newest, newest + 1].map(|it| way.ts_output.is_over(it));
        assert_eq!(is_over, [true, true, false]);
    }

    /// An output of which more may come is not over, although all of it is sent.
    #[test]
    fn a_stream_with_a_source_is_not_over() {
        let mut way = Way::new();
        way.feed(&packets(7), at(0));
        assert_eq!(way.write(at(0)), (vec![7], false));
        assert!(!way.ts_output.is_over(7 * PACKET_BYTES as u64));
        way.ts_output.pacing.finish();
        assert_eq!(way.write(at(1)), (vec![], false), "nobody has said so");
        assert!(way.ts_output.is_over(7 * PACKET_BYTES as u64));
    }

    /// The kernel takes 45 datagrams in one call. The others go out with the next.
    #[test]
    fn a_batch_has_45_datagrams_at_most() {
        let mut way = Way::new();
        way.feed(&packets(7 * 100 + 2), at(0));
        for (datagrams, last) in [(45, 7), (45, 7), (10, 7)] {
            let (packets, is_over) = way.write(at(0));
            assert_eq!((packets.len(), is_over), (datagrams, false));
            assert_eq!(packets.last(), Some(&last));
        }
        assert_eq!(way.write(at(100)), (vec![2], false));
        // One call asks for most of a batch at once.
        let mut way = Way::new();
        way.feed(&packets(7 * 100), at(0));
        let (asked, mut batch) = (std::cell::RefCell::new(Vec::new()), Vec::new());
        way.ts_output
            .write(at(0), false, false, &mut batch, |from, most| {
                asked.borrow_mut().push((from, most));
                let rest = &way.media[from as usize..];
                &rest[..rest.len().min(most)]
            });
        assert_eq!(asked.borrow()[0], (0, 44 * DATAGRAM_BYTES));
        let asked = asked.into_inner();
        assert!(
            asked
                .windows(2)
                .all(|two| two[1].0 == two[0].0 + two[0].1 as u64)
        );
        assert!(
            asked
                .iter()
                .all(|(from, most)| from + *most as u64 <= way.media.len() as u64)
        );
    }

    /// The timestamp has ticks of 90 kHz, and starts at a random number.
    #[test]
    fn a_datagram_has_the_time_at_which_it_left() {
        for (random, milliseconds, timestamp) in [
            (0, 0, 0),
            (0, 1_000, 90_000),
            (0, 1, 90),
            (0x1234_0000, 0, 0x1234),
            (0x1234_0000, 1_000, 0x1234 + 90_000),
            (0xffff_ffff_0000, 2, 179),
        ] {
            let mut ts_output = TsOutput::new(0, random);
            let media = packets(7);
            ts_output.feed(&media, at(milliseconds));
            let mut batch = Vec::new();
            ts_output.write(at(milliseconds), false, false, &mut batch, |_, _| &media);
            let packet = crate::rtp::Packet::parse(&batch).expect("good RTP");
            assert_eq!(packet.timestamp, timestamp, "{random:x}, {milliseconds}");
            assert_eq!(packet.ssrc, random as u32);
            assert_eq!(packet.sequence_number, (random >> 32) as u16);
        }
    }

    /// With a clock, datagrams go out in groups, 10 ms apart.
    #[test]
    fn with_a_clock_groups_are_10_ms_apart() {
        let mut way = Way::new();
        way.feed(&second()[..200 * PACKET_BYTES], at(0));
        way.write(at(0));
        // All due bytes are out. The next are due when the group's time is over, and not before.
        let out = way.ts_output.cursor;
        assert!(out < way.media.len() as u64);
        assert_eq!(way.ts_output.paused_until, Some(at(10)));
        assert_eq!(way.deadline(at(0)), Some(at(10)));
        assert_eq!(way.deadline(at(4)), Some(at(10)));
        for milliseconds in [1, 5, 9] {
            assert_eq!(way.write(at(milliseconds)).0.len(), 0, "{milliseconds}");
            assert_eq!(way.ts_output.cursor, out);
        }
        // After that, the next deadline is that of the next bytes.
        assert!(
            way.deadline(at(10)) > Some(at(10)),
            "{:?}",
            way.deadline(at(10))
        );
        assert!(!way.write(at(10)).0.is_empty());
        assert_eq!(way.ts_output.paused_until, Some(at(20)));
        // The packets that wait for their datagram are not flushed earlier either.
        way.ts_output.waiting_since = Some(at(0));
        assert_eq!(way.deadline(at(12)), Some(at(20)));
        way.ts_output.paused_until = Some(at(300));
        assert_eq!(way.deadline(at(12)), Some(at(300)));
        way.ts_output.paused_until = None;
        way.ts_output.waiting_since = Some(at(8));
        way.ts_output.pacing = Pacing::new(0);
        assert_eq!(way.deadline(at(12)), Some(at(108)));
    }

    /// Overwritten bytes are skipped. The packets after them go out whole.
    #[test]
    fn overwritten_bytes_are_skipped() {
        let mut ts_output = TsOutput::new(0, 7);
        let media = packets(100);
        ts_output.feed(&media[..50 * PACKET_BYTES + 60], at(0));
        let mut batch = Vec::new();
        ts_output.write(at(0), false, false, &mut batch, |_, _| &[]);
        assert_eq!((ts_output.cursor, batch.len()), (50 * 188 + 60, 0));
        ts_output.feed(&media[50 * PACKET_BYTES + 60..], at(1));
        ts_output.write(at(1), false, false, &mut batch, |from, most| {
            let rest = &media[from as usize..];
            &rest[..rest.len().min(most)]
        });
        assert_eq!(ts_output.cursor, media.len() as u64);
        assert_eq!(batch.len(), 7 * DATAGRAM_BYTES);
    }

    /// With corrections, all datagrams have one size.
    #[test]
    fn short_datagrams_are_padded_where_corrections_are_sent() {
        for (is_padded, bytes) in [(false, 12 + 3 * PACKET_BYTES), (true, DATAGRAM_BYTES)] {
            let mut way = Way::new();
            way.feed(&packets(3), at(0));
            way.write(at(0));
            let mut batch = Vec::new();
            way.ts_output
                .write(at(100), false, is_padded, &mut batch, |_, _| &[]);
            assert_eq!(batch.len(), bytes);
        }
    }

    /// Each part of the state is checked.
    #[cfg(feature = "handover")]
    #[test]
    fn an_impossible_state_of_an_output_is_refused() {
        type Change = fn(&mut serde_json::Value);
        for (what, change, newest, fits) in [
            ("as it was", (|_| {}) as Change, 5_000, true),
            ("nothing more", |_| {}, 1_000, true),
            ("it has read on", |_| {}, 999, false),
            ("its place", |it| it["cursor"] = 5_000.into(), 5_000, true),
            ("its place", |it| it["cursor"] = 5_001.into(), 5_000, false),
            (
                "its pacer",
                |it| it["pacing"]["arrived"] = 5_001.into(),
                5_000,
                false,
            ),
            (
                "its packets",
                |it| it["packetiser"]["waiting"] = "a".repeat(1_316).into(),
                5_000,
                false,
            ),
        ] {
            let mut told = serde_json::to_value(TsOutput::new(1_000, 7)).expect("a value");
            change(&mut told);
            let ts_output: TsOutput = serde_json::from_value(told).expect("a transport");
            assert_eq!(ts_output.is_valid(newest), fits, "{what}");
        }
    }

    fn client(port: u16) -> Destination {
        Destination {
            address: SocketAddr::from(([10, 2, 0, 1], port)),
            transport: crate::gate::Transport::Rtp(None),
        }
    }

    fn rtp_out(ts_output: Option<TsOutput>) -> RtpOut {
        let mut out = RtpOut {
            ts_output,
            ..RtpOut::default()
        };
        out.udp_out.set_clients(Rc::new([client(6000)]), None, || 0);
        out
    }

    /// An output is over when all bytes are in datagrams, and all datagrams are sent.
    #[test]
    fn an_output_is_over_when_all_bytes_are_sent() {
        // RTP that goes out as it came has no bytes in the buffer.
        let mut out = rtp_out(None);
        assert!(out.is_empty() && out.is_over(1_000));
        assert!(out.udp_out.forward(&[7; 100], None));
        assert!(!out.is_empty() && !out.is_over(1_000));
        while out.udp_out.next_clients() {}
        assert!(out.is_empty() && out.is_over(1_000));

        let media = packets(8);
        let newest = media.len() as u64;
        let mut out = rtp_out(Some(TsOutput::new(0, 7)));
        assert!(out.is_empty() && !out.is_over(0));
        let ts_output = out.ts_output.as_mut().expect("it is there");
        ts_output.feed(&media, at(0));
        let lend = |from: u64, _: usize| &media[from as usize..];
        out.write(at(0), false, lend);
        assert!(!out.is_empty() && !out.is_over(newest));
        while out.udp_out.next_clients() {}
        assert!(out.is_empty() && !out.is_over(newest), "a packet waits");
        out.finish(newest, at(1));
        out.write(at(1), true, lend);
        assert!(!out.is_over(newest), "it is on its way");
        while out.udp_out.next_clients() {}
        assert!(out.is_over(newest) && !out.is_over(newest + 1));
    }

    /// After the source is gone, the rest goes out for a minute and the time that its bytes are
    /// worth.
    #[test]
    fn the_rest_of_a_stream_has_a_deadline() {
        let mut out = rtp_out(Some(TsOutput::new(1_000, 7)));
        out.finish(41_000, at(5_000));
        assert_eq!(out.drain_until, Some(at(5_000) + drain_time(40_000)));
        assert!(drain_time(40_000) > drain_time(0));
        out.clear();
        assert!(out.ts_output.is_none() && out.drain_until.is_none());
        assert_eq!(out.udp_out.client_count(), 0);
        // Without an output from the buffer there is no rest.
        let mut out = rtp_out(None);
        out.finish(41_000, at(5_000));
        assert_eq!(out.drain_until, None);
    }

    #[test]
    fn datagrams_count_once_for_each_client() {
        let to = [client(1).address, client(2).address, client(3).address];
        for (clients, bytes, datagrams) in [
            (1, 100, 1),
            (1, 101, 2),
            (2, 100, 2),
            (3, 200, 6),
            (3, 250, 9),
            (2, 1_000, 20),
        ] {
            let datagrams_of = Datagrams {
                to: &to[..clients],
                bytes: &vec![7; bytes],
                datagram_bytes: 100,
            };
            assert_eq!(datagrams_of.count(), datagrams, "{clients} of {bytes}");
        }
    }

    /// Half a `--buffer` may be ahead of its clock. The source is not read beyond that.
    #[test]
    fn a_body_that_is_ahead_of_its_clock_is_not_read() {
        let mut stage = Stage::new(&["--token-server=10.0.0.0/24", "--buffer=64K"]);
        stage.relay.set_rtp(SocketAddr::from(([10, 0, 0, 9], 5004)));
        let call = stage.client("POST /api/add-token?type=http,udp&sessionid=s&udp-clients=10.2.0.1:6000 HTTP/1.1\r\nHost: localhost\r\n\r\n");
        stage.assert_status(call, 201);
        let put = "PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Length: 9999999\r\n\r\n";
        let source = stage.client(put);
        let media = second();
        stage.send(source, &media[..150 * PACKET_BYTES]);
        let session = crate::gate::SessionId::parse(b"s").expect("a name");
        let (id, _) = stage
            .relay
            .streams
            .running_source(&session)
            .expect("it runs");
        let (streams, ctx) = (&mut stage.relay.streams, &mut stage.relay.ctx);
        let stream = streams.streams.get_mut(id).expect("it is there");
        let newest = stream.buffer.newest();
        let ts_output = stream.rtp_out.ts_output.as_mut().expect("it goes out");
        let cursor = ts_output.cursor;
        assert!(cursor < newest);
        assert!(!streams.is_ahead(id, ctx) && streams.source_bytes_wanted(id, ctx) > 0);
        // 300 packets arrive at once, which last 60 ms.
        stage.relay.received(
            source,
            &media[150 * PACKET_BYTES..450 * PACKET_BYTES],
            stage.now,
        );
        stage.settle();
        let (streams, ctx) = (&mut stage.relay.streams, &mut stage.relay.ctx);
        assert!(streams.is_ahead(id, ctx));
        assert_eq!(streams.source_bytes_wanted(id, ctx), 0);
        assert!(streams.take_slowed(id));
        // The limit is exact to the byte, from the next byte that goes out.
        for (waits, is_ahead) in [(32_767, false), (32_768, true), (60_000, true), (0, false)] {
            let stream = streams.streams.get_mut(id).expect("it is there");
            let newest = stream.buffer.newest();
            let ts_output = stream.rtp_out.ts_output.as_mut().expect("it goes out");
            let before = std::mem::replace(&mut ts_output.cursor, newest - waits);
            assert_eq!(streams.is_ahead(id, ctx), is_ahead, "{waits}");
            let stream = streams.streams.get_mut(id).expect("it is there");
            let ts_output = stream.rtp_out.ts_output.as_mut().expect("it goes out");
            ts_output.cursor = before;
        }
        // The source is read again when less than that is ahead, and no earlier.
        let mut steps = 0;
        while stage.relay.streams.take_slowed(id) {
            let now = stage.now;
            assert!(stage.relay.streams.is_ahead(id, &stage.relay.ctx));
            while stage.relay.next_datagrams(now, &[]).is_some() {}
            stage.settle();
            stage.wait(Duration::from_millis(10));
            steps += 1;
            assert!(steps < 100, "it is never read on");
        }
        assert!(!stage.relay.streams.is_ahead(id, &stage.relay.ctx));
        assert!(steps > 1);
    }

    /// The log says why UDP clients get nothing. Without clients it does not.
    #[test]
    fn the_log_says_why_udp_clients_get_nothing() {
        let none = [7; 20_000];
        for (clients, media, words) in [
            ("10.2.0.1:6000", &none[..], "detail=\"not MPEG-TS\""),
            (
                "10.2.0.1:6000,10.2.0.2:6000",
                &none,
                "detail=\"not MPEG-TS\"",
            ),
            ("10.2.0.1:6000", &packets(100), ""),
            ("", &none, ""),
        ] {
            let mut stage = Stage::new(&["--token-server=10.0.0.0/24"]);
            stage.relay.set_rtp(SocketAddr::from(([10, 0, 0, 9], 5004)));
            let whom = match clients {
                "" => "type=http".to_owned(),
                _ => format!("type=http,udp&udp-clients={clients}"),
            };
            let call = stage.client(&format!(
                "POST /api/add-token?sessionid=s&{whom} HTTP/1.1\r\nHost: localhost\r\n\r\n"
            ));
            stage.assert_status(call, 201);
            let put = "PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Length: 9999999\r\n\r\n";
            let source = stage.client(put);
            stage.relay.received(source, media, stage.now);
            let session = crate::gate::SessionId::parse(b"s").expect("a name");
            let mut lines = Vec::new();
            while let Some(action) = stage.relay.next_action() {
                if let crate::relay::Action::Log(line) = action {
                    lines.extend(Some(line).filter(|line| line.contains("no-rtp")));
                }
            }
            assert_eq!(lines.len(), usize::from(!words.is_empty()), "{lines:?}");
            let digest = session.digest();
            for line in lines {
                let event = format!("event=no-rtp session={digest} {words}");
                assert!(line.contains(&event), "{line}");
            }
        }
    }
}
