//! A source that sends MPEG-TS in datagrams without RTP. Its packets go out like a body.

use std::net::SocketAddr;

use super::Streams;
use crate::relay::StreamId;
use crate::relay::context::Context;
use crate::relay::counts::Count;
use crate::rtp::Bare;
use crate::time::Instant;

/// State of such a source.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct BareInput {
    pub bare: Bare,
    /// Address of its datagrams. Only this identifies them, as nothing in them does.
    pub from: SocketAddr,
    /// When its last datagram came.
    pub heard: Instant,
}

impl Streams {
    /// Begins a source of MPEG-TS without RTP at this address.
    pub fn begin_bare(&mut self, id: StreamId, from: SocketAddr, ctx: &mut Context) {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.bare = Some(Box::new(BareInput {
                bare: Bare::default(),
                from,
                heard: ctx.now(),
            }));
            stream.rearm(id, ctx);
        }
    }

    /// Takes a datagram of a stream's source. Returns the packets in it that are whole.
    pub fn take_bare(&mut self, id: StreamId, bytes: &[u8], ctx: &mut Context) -> Option<Vec<u8>> {
        let stream = self.streams.get_mut(id)?;
        stream.bare.as_mut()?.heard = ctx.now();
        if !stream.admits(bytes.len(), ctx) {
            return None;
        }
        let input = stream.bare.as_mut()?;
        let mut packets = Vec::with_capacity(bytes.len());
        input.bare.feed(bytes, &mut packets);
        ctx.count(Count::Datagrams, 1);
        Some(packets).filter(|packets| !packets.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::mpegts::{PACKET_BYTES, SYNC_BYTE};
    use crate::gate::SessionId;
    use crate::relay::stage::Stage;

    const CAMERA: &str = "10.2.0.2:6000";

    /// Only whole packets go on, however datagrams cut them. Each datagram counts, and sets the
    /// time of the last.
    #[test]
    fn whole_packets_without_rtp_go_on() {
        let from: SocketAddr = CAMERA.parse().expect("an address");
        let mut stage = Stage::new(&["--token-server=10.0.0.0/24"]);
        stage
            .relay
            .set_rtp("10.0.0.9:5004".parse().expect("an address"));
        let call = stage.client(&format!(
            "POST /api/add-token?type=http,udp&sessionid=s&udp-clients={CAMERA} HTTP/1.1\r\nHost: localhost\r\n\r\n"
        ));
        stage.assert_status(call, 201);
        let packet = |number: u8| {
            let mut packet = [number; PACKET_BYTES];
            packet[0] = SYNC_BYTE;
            packet
        };
        let media: Vec<u8> = (0..20).flat_map(packet).collect();
        stage.wait_seconds(7);
        stage.arrive(CAMERA, &media[..3 * PACKET_BYTES]);
        let viewer = stage.viewer("s");
        let session = SessionId::parse(b"s").expect("a name");
        let id = stage
            .relay
            .streams
            .running_source(&session)
            .expect("it runs")
            .0;
        let heard = |stage: &Stage| {
            let stream = stage.relay.streams.streams.get(id).expect("it runs");
            let bare = stream.bare.as_ref().expect("it sends no RTP");
            (bare.from, bare.heard)
        };
        assert_eq!(heard(&stage), (from, stage.now));
        let before = stage.media(viewer).0.len();
        // The end of each datagram in the media, and how many packets are whole then.
        let mut at = 3 * PACKET_BYTES;
        for (datagrams, (to, whole)) in (2..).zip([(600, 3), (700, 3), (752, 4), (3_000, 15)]) {
            stage.wait_seconds(1);
            stage.arrive(CAMERA, &media[at..to]);
            at = to;
            assert_eq!(heard(&stage), (from, stage.now));
            assert_eq!(stage.relay.ctx.counts.of(Count::Datagrams), datagrams);
            let got = stage.media(viewer).0.len() - before;
            assert_eq!(got, (whole - 3) * PACKET_BYTES, "{to}");
        }
        let (got, _) = stage.media(viewer);
        assert_eq!(got[before..], media[3 * PACKET_BYTES..15 * PACKET_BYTES]);
    }
}
