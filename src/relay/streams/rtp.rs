//! A source that sends RTP: puts its packets into order and passes them on.

use std::net::{IpAddr, SocketAddr};

use super::Streams;
use crate::gate::SessionId;
use crate::relay::StreamId;
use crate::relay::context::Context;
use crate::relay::counts::Count;
use crate::relay::rtp_in::DatagramSource;
use crate::rtp::{Control, Disorder, PAYLOAD_TYPE_MPEG_TS, Packet, Reorder, Sequence};
use crate::stream::End;
use crate::time::Instant;

/// State of an RTP source.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct RtpInput {
    ssrc: u32,
    from: SocketAddr,
    sequence: Sequence,
    pub reorder: Reorder,
    /// The part of the disorder that has been counted.
    disorder_counted: Disorder,
    pub payload_type: u8,
    /// It has sent an RTCP BYE.
    says_bye: bool,
    /// When its last packet came.
    pub heard: Instant,
}

impl RtpInput {
    /// Creates the state of a source from the packet that confirmed it.
    fn new(second: &Packet<'_>, from: SocketAddr, now: Instant) -> RtpInput {
        RtpInput {
            ssrc: second.ssrc,
            from,
            sequence: Sequence::new(second.sequence_number),
            reorder: Reorder::default(),
            disorder_counted: Disorder::default(),
            payload_type: second.payload_type,
            says_bye: false,
            heard: now,
        }
    }

    /// Returns whether it sends MPEG-TS. Only MPEG-TS is put into order.
    pub fn is_transport(&self) -> bool {
        self.payload_type == PAYLOAD_TYPE_MPEG_TS
    }

    /// Counts the disorder that has not been counted yet.
    fn count_disorder(&mut self, ctx: &mut Context) {
        let disorder = self.reorder.disorder();
        let counted = std::mem::replace(&mut self.disorder_counted, disorder);
        ctx.count(Count::Late, disorder.late.saturating_sub(counted.late));
        ctx.count(Count::Lost, disorder.lost.saturating_sub(counted.lost));
    }
}

impl Streams {
    /// Returns how the datagrams of a stream's source are recognised.
    pub fn known(&self, id: StreamId) -> Option<DatagramSource> {
        let stream = self.streams.get(id)?;
        let (ssrc, from, heard) = match (&stream.bare, &stream.input) {
            (Some(input), _) => (None, input.from, input.heard),
            (None, Some(input)) => (Some(input.ssrc), input.from, input.heard),
            (None, None) => return None,
        };
        Some(DatagramSource { ssrc, from, heard })
    }

    /// Begins an RTP source at this address. This is the packet that confirmed it.
    pub fn begin_rtp(
        &mut self,
        id: StreamId,
        from: SocketAddr,
        second: &Packet<'_>,
        ctx: &mut Context,
    ) {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.input = Some(Box::new(RtpInput::new(second, from, ctx.now())));
            // RTP packets go out as they came.
            stream.rtp_out.ts_output = None;
            stream.rearm(id, ctx);
        }
    }

    /// Takes a packet of a stream's source and sends it to the UDP clients as it came. Returns its
    /// media if they are next in order; after that [`Streams::next_in_order`] may have more.
    pub fn take_packet<'a>(
        &mut self,
        id: StreamId,
        packet: &Packet<'a>,
        bytes: &[u8],
        ctx: &mut Context,
    ) -> Option<&'a [u8]> {
        let stream = self.streams.get_mut(id)?;
        let input = stream.input.as_mut()?;
        let Some(number) = input.sequence.extend(packet.sequence_number) else {
            ctx.count(Count::OutOfSequence, 1);
            return None;
        };
        input.heard = ctx.now();
        if !stream.admits(bytes.len(), ctx) {
            return None;
        }
        let input = stream.input.as_mut()?;
        ctx.count(Count::Datagrams, 1);
        let ts_output = input.is_transport().then_some(packet.payload);
        let fits = stream.rtp_out.udp_out.forward(bytes, ts_output);
        ctx.count(Count::Unsent, u64::from(!fits));
        let media = match input.is_transport() {
            true => input.reorder.insert(number, packet.payload, ctx.now()),
            false => {
                stream.buffer.count(packet.payload.len(), ctx.now());
                None
            }
        };
        self.queue_udp_out(id);
        media
    }

    /// Returns the next media of a stream's source that are in order now. Ends the stream if its
    /// source has sent BYE, and no packet waits.
    pub fn next_in_order(&mut self, id: StreamId, ctx: &mut Context) -> Option<Vec<u8>> {
        let input = self.streams.get_mut(id)?.input.as_mut()?;
        let next = input.reorder.next(ctx.now());
        if next.is_none() {
            input.count_disorder(ctx);
            if input.reorder.deadline().is_some() {
                self.rearm(id, ctx);
            } else if input.says_bye {
                self.end(id, End::Complete, "the source sent an RTCP BYE", ctx);
            }
        }
        next
    }

    /// Drops the packets that wait for a missing one: the source is gone.
    pub(super) fn drop_early(&mut self, id: StreamId, ctx: &mut Context) {
        if let Some(stream) = self.streams.get_mut(id)
            && let Some(input) = &mut stream.input
        {
            input.reorder.clear();
            input.count_disorder(ctx);
        }
    }

    /// Forwards RTCP to the UDP clients as it came, if the stream's source sent it. Returns whether
    /// that is so. After a goodbye, [`Streams::next_in_order`] ends the stream.
    pub fn take_control(
        &mut self,
        id: StreamId,
        control: &Control,
        (from, bytes): (IpAddr, &[u8]),
        ctx: &mut Context,
    ) -> bool {
        let Some(stream) = self.streams.get_mut(id) else {
            return false;
        };
        let is_its =
            |input: &&mut Box<RtpInput>| input.ssrc == control.ssrc && input.from.ip() == from;
        let Some(input) = stream.input.as_mut().filter(is_its) else {
            ctx.count(Count::SecondSource, 1);
            return false;
        };
        input.says_bye |= control.says_bye;
        // Too much for the rate, but it is the source's.
        if !stream.admits(bytes.len(), ctx) {
            return true;
        }
        let fits = stream.rtp_out.udp_out.forward(bytes, None);
        ctx.count(Count::Unsent, u64::from(!fits));
        self.queue_udp_out(id);
        true
    }

    /// Returns the session's streams that go to its UDP clients: the running one, and the one that
    /// ended last.
    pub fn with_clients(&self, session: &SessionId) -> impl Iterator<Item = StreamId> + use<> {
        let running = self.running.get(session).copied();
        running
            .into_iter()
            .chain(self.draining.draining_to_udp(session))
    }

    /// Returns the session's stream if its source is an address, that address, and whether the
    /// source sends no RTP.
    pub fn rtp_source_of(&self, session: &SessionId) -> Option<(StreamId, SocketAddr, bool)> {
        let (id, source) = self.running_source(session)?;
        let is_bare = self.streams.get(id)?.bare.is_some();
        Some((id, source.address()?, is_bare))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::format::mpegts::SYNC_BYTE;
    use crate::relay::stage::Stage;
    use crate::relay::stage::address;

    const CAMERA: &str = "10.2.0.2:6000";
    const CLIENT: &str = "10.2.0.1:6000";

    fn packet(payload_type: u8, number: u16, ssrc: u32, payload: &[u8]) -> Vec<u8> {
        let header = Packet::header(payload_type, number, 0, ssrc);
        [&header[..], payload].concat()
    }

    fn input(payload_type: u8) -> RtpInput {
        let second = packet(payload_type, 7, 9, b"x");
        let second = Packet::parse(&second).expect("good RTP");
        RtpInput::new(&second, address(CAMERA), Instant::START)
    }

    /// Returns a stage with a camera and a UDP client of one session, which has a token.
    fn stage(kinds: &str) -> Stage {
        let mut stage = Stage::new(&["--token-server=10.0.0.0/24"]);
        stage.relay.set_rtp(address("10.0.0.9:5004"));
        let call = stage.client(&format!(
            "POST /api/add-token?type=http,{kinds}&sessionid=s&udp-clients={CLIENT},{CAMERA} HTTP/1.1\r\nHost: localhost\r\n\r\n"
        ));
        stage.assert_status(call, 201);
        stage
    }

    fn send(stage: &mut Stage, numbers: impl IntoIterator<Item = u16>) {
        for number in numbers {
            let payload = [SYNC_BYTE; 188];
            stage.arrive(CAMERA, &packet(33, number, 9, &payload));
        }
    }

    /// Packets that came early may be half a megabyte of each source. A turn appends some of them,
    /// also when their source has sent BYE.
    #[test]
    fn early_packets_are_released_over_several_turns() {
        for says_bye in [false, true] {
            release(says_bye);
        }
    }

    fn release(says_bye: bool) {
        let mut stage = Stage::new(&["--token-server=10.0.0.0/24"]);
        stage.relay.set_rtp(address("10.0.0.9:5004"));
        // A packet of the PAT's PID.
        let mut payload = [0xff; 188];
        payload[..4].copy_from_slice(&[SYNC_BYTE, 0x40, 0, 0x10]);
        for session in 0..4 {
            let camera = format!("10.2.0.2:600{session}");
            let call = stage.client(&format!(
                "POST /api/add-token?type=rtp-udp&sessionid=s{session}&udp-clients={camera} HTTP/1.1\r\nHost: localhost\r\n\r\n"
            ));
            stage.assert_status(call, 201);
            for number in [1, 2].into_iter().chain(4..304) {
                stage.arrive(&camera, &packet(33, number, session, &payload));
            }
            if says_bye {
                let bye = [0x81, 203, 0, 1, 0, 0, 0, session as u8];
                stage.arrive(&camera, &bye);
            }
        }
        assert_eq!(stage.relay.streams.running(), 4);
        stage.now = stage.now + std::time::Duration::from_millis(100);
        let mut released = Vec::new();
        while released.last() < Some(&(4 * 302 * 188)) {
            stage.relay.expire(stage.now);
            assert!(stage.relay.clients.reading.cost < crate::relay::READ_COST_MAX);
            let streams = stage.relay.streams.streams.iter();
            let running: u64 = streams.map(|(_, stream)| stream.buffer.newest()).sum();
            released.push(running + count(&stage, Count::BytesReceived));
        }
        assert!(released.len() > 4 && released.is_sorted(), "{released:?}");
        let running = if says_bye { 0 } else { 4 };
        assert_eq!(stage.relay.streams.running(), running);
    }

    /// A source that is gone without a goodbye leaves no packets that wait for others.
    #[test]
    fn early_packets_of_a_source_that_is_gone_are_dropped() {
        let mut stage = stage("rtp-udp");
        send(&mut stage, [0, 1, 3, 4]);
        let viewer = stage.viewer("s");
        let call = "DELETE /api/abort-stream?sessionid=s HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let call = stage.client(call);
        stage.assert_status(call, 200);
        assert_eq!(count(&stage, Count::Lost), 2);
        assert!(stage.media(viewer).0.len() <= 2 * 188);
        stage.wait_seconds(1);
    }

    fn count(stage: &Stage, what: Count) -> u64 {
        stage.relay.ctx.counts.of(what)
    }

    fn drain(stage: &mut Stage) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        let now = stage.now;
        while let Some(datagrams) = stage.relay.next_datagrams(now, &[]) {
            let each = datagrams.bytes.chunks(datagrams.datagram_bytes);
            all.extend(each.map(<[u8]>::to_vec));
        }
        stage.settle();
        all
    }

    /// The payload type decides whether packets are put into order. Early packets count as memory.
    #[test]
    fn the_payload_type_decides_about_reordering() {
        for (payload_type, is_transport) in [(33, true), (32, false), (96, false), (0, false)] {
            let input = input(payload_type);
            assert_eq!(input.payload_type, payload_type);
            assert_eq!(input.is_transport(), is_transport, "{payload_type}");
            assert_eq!(input.reorder.deadline(), None);
        }
        let mut input = input(33);
        input.reorder.insert(1, b"one", Instant::START);
        input.reorder.insert(9, &[7; 1_000], Instant::START);
        // The wait is shorter than a second.
        let until = input.reorder.deadline().expect("something is missing");
        assert!(until > Instant::START && until < Instant::START + Duration::from_secs(1));
        let next = input.reorder.next(until).expect("it came early");
        assert_eq!((next.len(), input.reorder.disorder().lost), (1_000, 7));
    }

    /// A packet that is missing too long counts as lost, and as late if it arrives after that. Each
    /// counts once, for the stream and for the server.
    #[test]
    fn lost_and_late_packets_count_once() {
        let mut stage = stage("rtp-udp");
        send(&mut stage, 0..3);
        let viewer = stage.viewer("s");
        let mut sent = 3;
        for (missing, lost, late) in [(3, 1, 0), (10, 2, 1), (20, 3, 2), (30, 4, 3)] {
            if missing > 3 {
                // The packet that was missed last, which is not waited for any more.
                let before = if missing == 10 { 3 } else { missing - 10 };
                send(&mut stage, [before]);
            }
            send(&mut stage, sent..missing);
            send(&mut stage, [missing + 1, missing + 2]);
            sent = missing + 3;
            stage.wait(Duration::from_millis(10));
            assert_eq!(count(&stage, Count::Lost), lost - 1, "it is waited for");
            stage.wait_seconds(1);
            assert_eq!(count(&stage, Count::Lost), lost, "{missing}");
            assert_eq!(count(&stage, Count::Late), late, "{missing}");
            let rows = stage.relay.streams.rows((0, 0), &stage.relay.ctx);
            let row = rows.map(|(_, row)| serde_json::to_value(&row).expect("a row"));
            let source = &row.last().expect("a stream")["source"];
            let packets = serde_json::json!({"lost": lost, "late": late});
            assert_eq!(source["packets"], packets);
            // The early packets go on after the gap.
            let got = stage.media(viewer).0.len();
            assert_eq!(got, 188 * usize::from(sent - lost as u16), "{missing}");
        }
    }

    /// RTCP belongs to a source by its SSRC and its host. Only that goes out.
    #[test]
    fn only_the_sources_own_rtcp_is_forwarded() {
        let mut stage = stage("rtp-udp");
        send(&mut stage, 0..2);
        drain(&mut stage);
        let report = |ssrc: u8| [0x80, 201, 0, 1, 0, 0, 0, ssrc];
        // A source sends RTCP from the next port, too. Another host cannot.
        for (from, ssrc, is_its) in [
            (CAMERA, 9, true),
            ("10.2.0.2:6001", 9, true),
            (CAMERA, 8, false),
            ("10.2.0.2:6001", 8, false),
        ] {
            let before = count(&stage, Count::SecondSource);
            stage.arrive(from, &report(ssrc));
            let dropped = count(&stage, Count::SecondSource) - before;
            assert_eq!(dropped, u64::from(!is_its), "{from} {ssrc}");
            let sent = drain(&mut stage);
            let expected = if is_its {
                vec![report(ssrc).to_vec()]
            } else {
                vec![]
            };
            assert_eq!(sent, expected, "{from} {ssrc}");
        }
        // The stream's id alone does not suffice: host and SSRC must match.
        let (id, _, is_bare) = {
            let session = SessionId::parse(b"s").expect("a name");
            let source = stage.relay.streams.rtp_source_of(&session);
            source.expect("an address sends it")
        };
        assert!(!is_bare);
        for (host, ssrc, is_its) in [
            ("10.2.0.2", 9, true),
            ("10.2.0.3", 9, false),
            ("10.2.0.2", 8, false),
            ("10.2.0.3", 8, false),
        ] {
            let control = Control {
                ssrc,
                says_bye: true,
            };
            let from = (host.parse().expect("a host"), &report(9)[..]);
            let ctx = &mut stage.relay.ctx;
            let taken = stage.relay.streams.take_control(id, &control, from, ctx);
            assert_eq!(taken, is_its, "{host} {ssrc}");
        }
        assert_eq!(count(&stage, Count::Unsent), 0);
    }

    /// Half a MiB may wait to be sent. The rest is dropped and counted.
    #[test]
    fn datagrams_beyond_the_memory_limit_are_dropped_and_counted() {
        let mut stage = stage("rtp-udp");
        let payload = [7; 1_000];
        for number in 0..400 {
            stage.arrive(CAMERA, &packet(96, number, 9, &payload));
        }
        assert_eq!(count(&stage, Count::Unsent), 0);
        for number in 400..1_000 {
            stage.arrive(CAMERA, &packet(96, number, 9, &payload));
        }
        let sent = drain(&mut stage);
        let dropped = count(&stage, Count::Unsent);
        assert!(sent.len() < 600, "{}", sent.len());
        assert_eq!(sent.len() + dropped as usize, 1_000);
        // The same holds for RTCP.
        for number in 1_000..2_000 {
            stage.arrive(CAMERA, &packet(96, number, 9, &payload));
        }
        let before = count(&stage, Count::Unsent);
        let large = [&[0x80, 201, 1, 0, 0, 0, 0, 9][..], &[0; 1_020]].concat();
        stage.arrive(CAMERA, &large);
        assert_eq!(count(&stage, Count::Unsent), before + 1);
        assert_eq!(count(&stage, Count::SecondSource), 0);
    }

    /// RTCP counts for the token's rate like media. Beyond the rate it is not forwarded, but a
    /// goodbye still ends the source.
    #[test]
    fn rtcp_beyond_the_rate_is_not_forwarded() {
        let mut stage = Stage::new(&["--token-server=10.0.0.0/24"]);
        stage.relay.set_rtp(address("10.0.0.9:5004"));
        let call = stage.client(&format!(
            "POST /api/add-token?type=http,rtp-udp&sessionid=s&udp-clients={CLIENT},{CAMERA}&max-bitrate=80000 HTTP/1.1\r\nHost: localhost\r\n\r\n"
        ));
        stage.assert_status(call, 201);
        let report = [0x80, 201, 0, 1, 0, 0, 0, 9];
        send(&mut stage, 0..2);
        drain(&mut stage);
        stage.arrive(CAMERA, &report);
        assert_eq!(drain(&mut stage), [report.to_vec()]);
        send(&mut stage, 2..100);
        assert!(count(&stage, Count::TooFast) > 0);
        drain(&mut stage);
        let before = count(&stage, Count::TooFast);
        stage.arrive(CAMERA, &report);
        assert_eq!(drain(&mut stage), Vec::<Vec<u8>>::new());
        assert_eq!(count(&stage, Count::TooFast), before + 1);
        stage.arrive(CAMERA, &[0x81, 203, 0, 1, 0, 0, 0, 9]);
        assert_eq!(stage.relay.streams.running(), 0);
    }

    /// The address of each session's source is known, and whether it sends RTP.
    #[test]
    fn the_source_address_of_a_session_is_known() {
        let session = SessionId::parse(b"s").expect("a name");
        for (kinds, is_bare) in [("rtp-udp", false), ("udp", true)] {
            let mut stage = stage(kinds);
            assert!(stage.relay.streams.rtp_source_of(&session).is_none());
            assert_eq!(stage.relay.streams.with_clients(&session).count(), 0);
            stage.wait_seconds(5);
            match is_bare {
                true => stage.arrive(CAMERA, &[SYNC_BYTE; 188].repeat(3)),
                false => send(&mut stage, 0..2),
            }
            let streams = &stage.relay.streams;
            let found = streams.rtp_source_of(&session).expect("it runs");
            let id = streams.running_source(&session).expect("it runs").0;
            assert_eq!(found, (id, address(CAMERA), is_bare));
            assert_eq!(streams.with_clients(&session).collect::<Vec<_>>(), [id]);
            let known = streams.known(id).expect("it sends datagrams");
            assert_eq!(known.ssrc, (!is_bare).then_some(9));
            assert_eq!((known.from, known.heard), (address(CAMERA), stage.now));
            assert_eq!(
                streams.known(StreamId::from_u64(99)).map(|it| it.ssrc),
                None
            );
        }
        let mut stage = stage("rtp-udp");
        let put = "PUT /stream/s HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nx";
        stage.client(put);
        let streams = &stage.relay.streams;
        assert!(streams.rtp_source_of(&session).is_none());
        let id = streams.running_source(&session).expect("it runs").0;
        assert_eq!(streams.with_clients(&session).collect::<Vec<_>>(), [id]);
        assert!(streams.known(id).is_none());
    }
}
