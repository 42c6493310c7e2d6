//! A stream's source, if that sends RTP: its packets in their order, and what of them goes on.

use std::net::{IpAddr, SocketAddr};

use super::{Feed, Streams};
use crate::gate::SessionId;
use crate::moment::Moment;
use crate::relay::LiveId;
use crate::relay::counts::Count;
use crate::relay::desk::Desk;
use crate::relay::rtp_in::Known;
use crate::rtp::{Control, Disorder, PAYLOAD_TYPE_MPEG_TS, Packet, Reorder, Sequence};

/// What is known of an RTP source.
#[cfg_attr(feature = "handover", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct RtpInput {
    ssrc: u32,
    from: SocketAddr,
    sequence: Sequence,
    reorder: Reorder,
    /// So much of the disorder has been counted.
    disorder_told: Disorder,
    payload_type: u8,
    heard: Moment,
}

impl RtpInput {
    /// One that has shown with this packet that it is a source.
    fn new(second: &Packet<'_>, from: SocketAddr, now: Moment) -> RtpInput {
        RtpInput {
            ssrc: second.ssrc,
            from,
            sequence: Sequence::new(second.sequence_number),
            reorder: Reorder::default(),
            disorder_told: Disorder::default(),
            payload_type: second.payload_type,
            heard: now,
        }
    }

    /// Bytes that it takes.
    pub fn held_bytes(&self) -> usize {
        size_of::<RtpInput>() + self.reorder.held_bytes()
    }

    /// Whether what was told of it can be.
    #[cfg(feature = "handover")]
    pub fn fits(&self) -> bool {
        self.sequence.fits()
            && self.reorder.fits()
            && self.disorder_told.fits(self.reorder.disorder())
    }

    /// When its last packet came.
    pub fn heard(&self) -> Moment {
        self.heard
    }

    /// What it sends.
    pub fn payload_type(&self) -> u8 {
        self.payload_type
    }

    /// Whether it sends MPEG-TS, which is put in order.
    pub fn is_transport(&self) -> bool {
        self.payload_type == PAYLOAD_TYPE_MPEG_TS
    }

    /// What did not come as it was sent.
    pub fn disorder(&self) -> Disorder {
        self.reorder.disorder()
    }

    /// When what came early is not to wait any longer.
    pub fn deadline(&self) -> Option<Moment> {
        self.reorder.deadline()
    }

    /// What of the disorder has not been counted is.
    fn count_disorder(&mut self, desk: &mut Desk) {
        let disorder = self.disorder();
        let told = std::mem::replace(&mut self.disorder_told, disorder);
        desk.count(Count::Late, disorder.late - told.late);
        desk.count(Count::Lost, disorder.lost - told.lost);
    }
}

impl Streams {
    /// What is known of a stream's source that sends datagrams.
    pub fn known(&self, id: LiveId) -> Option<Known> {
        let live = self.lives.get(id)?;
        let of_bare = live.bare.as_ref().map(|input| Known {
            ssrc: None,
            from: input.from(),
            heard: input.heard(),
        });
        let of_rtp = live.input.as_ref().map(|input| Known {
            ssrc: Some(input.ssrc),
            from: input.from,
            heard: input.heard,
        });
        of_bare.or(of_rtp)
    }

    /// A stream's source sends RTP from this address, and has shown with this packet that it is
    /// one.
    pub fn begin_rtp(
        &mut self,
        id: LiveId,
        from: SocketAddr,
        second: &Packet<'_>,
        desk: &mut Desk,
    ) {
        if let Some(live) = self.lives.get_mut(id) {
            live.input = Some(Box::new(RtpInput::new(second, from, desk.now())));
            // What comes as RTP goes out as it came.
            live.rtp_out.transport = None;
            self.rearm(id, desk);
        }
    }

    /// A packet of a stream's source: it goes out as it came. Returns the media in it that is in
    /// order already; after that [`Streams::next_in_order`] may have more.
    pub fn take_packet<'a>(
        &mut self,
        id: LiveId,
        packet: &Packet<'a>,
        bytes: &[u8],
        desk: &mut Desk,
    ) -> Option<&'a [u8]> {
        let live = self.lives.get_mut(id)?;
        let input = live.input.as_mut()?;
        let Some(number) = input.sequence.extend(packet.sequence_number) else {
            desk.count(Count::OutOfSequence, 1);
            return None;
        };
        input.heard = desk.now();
        if !live.admits(bytes.len(), desk) {
            return None;
        }
        let input = live.input.as_mut()?;
        desk.count(Count::Datagrams, 1);
        let transport = input.is_transport().then_some(packet.payload);
        let fits = live.rtp_out.post.forward(bytes, transport);
        desk.count(Count::Unsent, u64::from(!fits));
        let media = match input.is_transport() {
            true => input.reorder.insert(number, packet.payload, desk.now()),
            false => {
                live.stream.count(packet.payload.len(), desk.now());
                None
            }
        };
        self.post(id);
        media
    }

    /// The next media of a stream's source that is in order now, if there is some.
    pub fn next_in_order(&mut self, id: LiveId, desk: &mut Desk) -> Option<Vec<u8>> {
        let input = self.lives.get_mut(id)?.input.as_mut()?;
        let next = input.reorder.next(desk.now());
        if next.is_none() {
            input.count_disorder(desk);
            if input.deadline().is_some() {
                self.rearm(id, desk);
            }
        }
        next
    }

    /// A stream's source is gone: what came early goes on, though something is missing before it.
    /// But nothing begins with it: what is unlike the stream is dropped.
    pub(super) fn finish_reorder(&mut self, id: LiveId, desk: &mut Desk) {
        let mut is_unlike = false;
        while let Some(payload) = self.last_in_order(id) {
            is_unlike = is_unlike || self.take_media(id, &payload, desk).is_some();
        }
        if let Some(live) = self.lives.get_mut(id)
            && let Some(input) = &mut live.input
        {
            input.count_disorder(desk);
        }
    }

    fn last_in_order(&mut self, id: LiveId) -> Option<Vec<u8>> {
        let input = self.lives.get_mut(id)?.input.as_mut()?;
        input.reorder.finish()
    }

    /// What a stream's source says beside its media goes out as it came, if it is its source's.
    pub fn take_control(
        &mut self,
        id: LiveId,
        control: &Control,
        (from, bytes): (IpAddr, &[u8]),
        desk: &mut Desk,
    ) -> bool {
        let Some(live) = self.lives.get_mut(id) else {
            return false;
        };
        let is_its = |input: &RtpInput| input.ssrc == control.ssrc && input.from.ip() == from;
        if !live.input.as_deref().is_some_and(is_its) {
            desk.count(Count::SecondSource, 1);
            return false;
        }
        // What it says counts here all the same.
        if !live.admits(bytes.len(), desk) {
            return true;
        }
        let fits = live.rtp_out.post.forward(bytes, None);
        desk.count(Count::Unsent, u64::from(!fits));
        self.post(id);
        true
    }

    /// The streams of a session that go out to its UDP clients: the one that runs, and the one that
    /// has a rest for them.
    pub fn with_clients(&self, session: &SessionId) -> impl Iterator<Item = LiveId> + use<> {
        let running = self.running.get(session).copied();
        running.into_iter().chain(self.draining.resting(session))
    }

    /// The address that is the source of a session's stream, if it is an address, and whether it
    /// sends no RTP.
    pub fn rtp_source_of(&self, session: &SessionId) -> Option<(LiveId, SocketAddr, bool)> {
        match self.running_source(session)? {
            (id, Feed::Rtp(address)) => {
                let is_bare = self.lives.get(id)?.bare.is_some();
                Some((id, address, is_bare))
            }
            (_, Feed::Http(_) | Feed::Held { .. } | Feed::Shadow | Feed::Gone) => None,
        }
    }
}
