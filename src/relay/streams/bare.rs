//! A stream's source, if that sends MPEG-TS in datagrams without RTP: it goes out as a body does.

use std::net::SocketAddr;

use super::Streams;
use crate::moment::Moment;
use crate::relay::LiveId;
use crate::relay::counts::Count;
use crate::relay::desk::Desk;
use crate::rtp::Bare;

/// What is known of such a source.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct BareInput {
    bare: Bare,
    from: SocketAddr,
    heard: Moment,
}

impl BareInput {
    /// Bytes that it takes.
    pub fn held_bytes(&self) -> usize {
        size_of::<BareInput>() + self.bare.held_bytes()
    }

    /// Whether what was told of it can be.
    #[cfg(feature = "handover")]
    pub fn fits(&self) -> bool {
        self.bare.fits()
    }

    /// Where its datagrams come from. Nobody else's count: nothing in them says whose they are.
    pub fn from(&self) -> SocketAddr {
        self.from
    }

    /// When its last datagram came.
    pub fn heard(&self) -> Moment {
        self.heard
    }
}

impl Streams {
    /// A stream's source sends MPEG-TS without RTP, from this address.
    pub fn begin_bare(&mut self, id: LiveId, from: SocketAddr, desk: &mut Desk) {
        if let Some(live) = self.lives.get_mut(id) {
            live.bare = Some(Box::new(BareInput {
                bare: Bare::default(),
                from,
                heard: desk.now(),
            }));
            self.rearm(id, desk);
        }
    }

    /// A datagram of a stream's source: the packets in it that are whole.
    pub fn take_bare(&mut self, id: LiveId, bytes: &[u8], desk: &mut Desk) -> Option<Vec<u8>> {
        let live = self.lives.get_mut(id)?;
        live.bare.as_mut()?.heard = desk.now();
        if !live.admits(bytes.len(), desk) {
            return None;
        }
        let input = live.bare.as_mut()?;
        let mut packets = Vec::with_capacity(bytes.len());
        input.bare.feed(bytes, &mut packets);
        desk.count(Count::Datagrams, 1);
        Some(packets).filter(|packets| !packets.is_empty())
    }
}
