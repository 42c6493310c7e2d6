//! Streams go to another process: what is known of each, whom it goes out to, and, told while they
//! run, their bytes.

use std::collections::BTreeMap;
use std::ops::Range;

use super::viewer::{Place, Viewing};
use super::{Feed, Live, Streams, hold};
use crate::handover::{Line, Unfit, Writer, must};
use crate::http::Reply;
use crate::relay::desk::Desk;
use crate::relay::quota::Quota;
use crate::relay::timers::Owner;
use crate::relay::{CONNECTIONS_BEYOND_MAX, ConnectionId, Limits, LiveId};
use crate::slots::Slots;
use crate::stream::{Pool, Received, Viewer, ViewerId};

/// A stream's viewers, each with its id.
type Viewers = Vec<(ViewerId<ConnectionId>, Viewer<ConnectionId>)>;

/// Streams that are told.
pub struct ToldStreams {
    pool: Pool,
    media: BTreeMap<LiveId, Received>,
    lives: Vec<(LiveId, Live)>,
    viewers: BTreeMap<LiveId, Viewers>,
}

impl Limits {
    /// So many streams there may be at once, with those that are made of others; and a few that are
    /// on their way out.
    fn lives_max(&self) -> usize {
        2 * self.streams_max + self.shadows_max()
    }
}

impl Streams {
    /// The bytes of each that are at hand.
    pub fn media(&self) -> impl Iterator<Item = (LiveId, Range<u64>)> {
        let lives = self.lives.iter();
        lives.map(|(id, live)| (id, live.stream.oldest()..live.stream.newest()))
    }

    /// Those of one from this offset on that lie together; none where there are none.
    pub fn media_bytes(&self, id: LiveId, from: u64) -> &[u8] {
        let live = self.lives.get(id);
        live.map_or(&[], |live| live.stream.slice(from, usize::MAX))
    }

    /// Tells all that is known of them but their bytes.
    pub fn hand_over(&self, writer: &mut Writer<'_>) {
        for (id, live) in self.lives.iter() {
            writer.put("stream", id.to_u64(), live);
            for (viewer, told) in live.stream.told_viewers() {
                writer.put("viewer", viewer.to_u64(), &(id, told));
            }
        }
    }

    /// They are another process's.
    pub fn let_go(&mut self, desk: &mut Desk) {
        let ids: Vec<LiveId> = self.lives.iter().map(|(id, _)| id).collect();
        for id in ids {
            if let Some(live) = self.lives.get_mut(id) {
                desk.disarm(&mut live.armed, Owner::Live(id));
            }
        }
        *self = Streams::new(&desk.settings().limits);
    }

    /// What ids count on from, and the streams' numbers.
    pub fn next_ids(&self) -> (u32, u64) {
        (self.lives.next(), self.live_serial_next)
    }

    /// Those that were told are this server's from now on.
    pub fn take_over(
        told: ToldStreams,
        (next_id, next_serial): (u32, u64),
        desk: &mut Desk,
    ) -> Result<Streams, Unfit> {
        let limits = &desk.settings().limits;
        let mut streams = Streams {
            lives: Slots::of(told.lives, next_id, limits.lives_max())?,
            live_serial_next: next_serial,
            pool: told.pool,
            ..Streams::new(limits)
        };
        let listed = streams.lives.len() - streams.shadows().count();
        must(listed <= limits.streams_max, || {
            format!(
                "it has {listed} streams, and --streams={} is less",
                limits.streams_max
            )
        })?;
        let (mut media, mut viewers) = (told.media, told.viewers);
        let ids: Vec<LiveId> = streams.lives.iter().map(|(id, _)| id).collect();
        for id in ids {
            let received = media.remove(&id);
            let received =
                received.unwrap_or_else(|| Received::new(&desk.settings().limits.stream));
            let viewers = viewers.remove(&id).unwrap_or_default();
            streams.seat(id, received, viewers, desk)?;
        }
        for left in media.into_values() {
            left.release(&mut streams.pool);
        }
        let granted = streams
            .lives
            .iter()
            .map(|(_, live)| live.stream.granted_bytes());
        let granted = isize::try_from(granted.sum::<usize>()).unwrap_or(isize::MAX);
        must(streams.pool.bytes_left >= -granted, || {
            "its buffers take more than --buffers says here".to_owned()
        })?;
        must(viewers.is_empty(), || "viewers of no stream".to_owned())?;
        streams
            .lives
            .iter()
            .try_for_each(|(id, live)| streams.fits(id, live))?;
        Ok(streams)
    }

    /// A stream that was told has its place in all lists that are kept of them.
    fn seat(
        &mut self,
        id: LiveId,
        received: Received,
        viewers: Viewers,
        desk: &mut Desk,
    ) -> Result<(), Unfit> {
        let limits = &desk.settings().limits;
        let bounds = (
            &limits.stream,
            limits.connections_max + CONNECTIONS_BEYOND_MAX,
        );
        let live = self.lives.get_mut(id);
        let live = live.ok_or_else(|| Unfit(format!("stream {id:?} is gone")))?;
        let stream = &mut live.stream;
        stream.become_whole(received, viewers, bounds, &mut self.pool)?;
        live.lined_up = live.stream.newest();
        live.fit(limits)?;
        let is_new = self.order.insert(live.serial, id).is_none();
        let is_next = live.serial < self.live_serial_next;
        must(is_new && is_next, || {
            format!("stream {id:?} has another's number")
        })?;
        let has_ended = live.stream.end().is_some();
        must(has_ended == (live.source == Feed::Gone), || {
            format!("stream {id:?} has ended, and has a source")
        })?;
        if live.shadow.is_none() {
            let session = live.session.clone();
            let runs_twice = match has_ended {
                true => {
                    self.draining.enter(&session, live.serial, id);
                    None
                }
                false => self.running.insert(session, id),
            };
            must(runs_twice.is_none(), || "a session runs twice".to_owned())?;
        }
        let has_ready = live.stream.has_ready();
        if has_ready {
            self.flow(id);
        }
        if self.is_behind(id) {
            self.behind.push_back(id);
        }
        self.post(id);
        self.rearm(id, desk);
        Ok(())
    }

    /// Whether what a stream knows of others is so.
    fn fits(&self, id: LiveId, live: &Live) -> Result<(), Unfit> {
        let known = |id: LiveId| self.lives.get(id);
        let casts_fit = live.casts.iter().all(|cast| {
            let shadow = cast
                .live
                .map(|id| known(id).and_then(|live| live.shadow.as_ref()));
            shadow.is_none_or(|shadow| shadow.is_some_and(|shadow| shadow.original == id))
        });
        let is_cast = live.shadow.as_ref().is_none_or(|shadow| {
            let casts = known(shadow.original).map(|original| &original.casts);
            let mut casts = casts.into_iter().flatten();
            casts.any(|cast| cast.live == Some(id) && cast.target == shadow.target)
        });
        must(casts_fit && is_cast, || {
            format!("stream {id:?} is made of another")
        })?;
        let is_kept = live.shadow.as_ref().is_none_or(|shadow| {
            let original = known(shadow.original).map(|original| &original.stream);
            let lies_in = |cursor: u64| {
                original.is_some_and(|original| {
                    let (kept, newest) = (original.filled_bytes() as u64, original.newest());
                    cursor <= newest && cursor + kept >= newest
                })
            };
            shadow.behind().is_none_or(lies_in)
        });
        must(is_kept, || {
            format!("what stream {id:?} has yet to read is not there")
        })
    }

    /// The socket of this viewer takes nothing for now.
    pub fn is_blocked(&mut self, (id, viewer): Place) {
        if let Some(live) = self.lives.get_mut(id) {
            live.stream.is_blocked(viewer);
        }
    }

    /// How many places their viewers have.
    pub fn viewer_places(&self) -> usize {
        let lives = self.lives.iter();
        lives.map(|(_, live)| live.stream.viewer_count()).sum()
    }

    /// Whether a stream is made of another one.
    pub fn is_shadow(&self, id: LiveId) -> bool {
        let live = self.lives.get(id);
        live.is_some_and(|live| live.shadow.is_some())
    }

    /// Who has this place.
    pub fn viewer_at(&self, (id, viewer): Place, desk: &Desk) -> Option<ConnectionId> {
        let live = self.lives.get(id)?;
        Some(live.stream.seen(viewer, desk.now())?.connection)
    }

    /// Where the media of each comes from.
    pub fn feeds(&self) -> impl Iterator<Item = (LiveId, Feed)> {
        self.lives.iter().map(|(id, live)| (id, live.source))
    }
}

impl Live {
    /// What was told of what is between its source and it, and of what it goes out by, can be.
    fn fit(&mut self, limits: &Limits) -> Result<(), Unfit> {
        self.rtp_out.post.fit()?;
        let newest = self.stream.newest();
        let unit_bytes_max = limits.remuxed_unit_bytes_max();
        let spliced_max = limits.stream.buffer_bytes / hold::UNIT_PART;
        let (splicer, shadow) = (self.splicer.as_ref(), self.shadow.as_ref());
        let transport = self.rtp_out.transport.as_ref();
        let is_fit = splicer.is_none_or(|splicer| splicer.fits(spliced_max))
            && shadow.is_none_or(|shadow| shadow.fits(unit_bytes_max))
            && self.input.as_ref().is_none_or(|input| input.fits())
            && self.bare.as_ref().is_none_or(|bare| bare.fits())
            && self.quota.as_ref().is_none_or(Quota::fits)
            && transport.is_none_or(|transport| transport.fits(newest))
            && self.cuts.fit();
        must(is_fit, || {
            "what its source sends, or what goes out, is in no state that can be".to_owned()
        })
    }
}

impl ToldStreams {
    /// None yet.
    pub fn new(limits: &Limits) -> ToldStreams {
        ToldStreams {
            pool: Pool::new(limits.buffers_bytes_max),
            media: BTreeMap::new(),
            lives: Vec::new(),
            viewers: BTreeMap::new(),
        }
    }

    /// Bytes of a stream: behind those that have come, or in the place of all of them.
    pub fn hear_media(
        &mut self,
        (id, from): (LiveId, u64),
        bytes: &[u8],
        limits: &Limits,
    ) -> Result<(), Unfit> {
        let is_known = self.media.contains_key(&id);
        must(is_known || self.media.len() < limits.lives_max(), || {
            format!("more than {} streams", limits.lives_max())
        })?;
        let received = self.media.entry(id);
        let received = received.or_insert_with(|| Received::new(&limits.stream));
        received.take(from, bytes, &mut self.pool)
    }

    /// A stream has gone of which bytes have come.
    pub fn forget_media(&mut self, id: LiveId) {
        if let Some(received) = self.media.remove(&id) {
            received.release(&mut self.pool);
        }
    }

    /// A stream.
    pub fn hear(&mut self, line: Line<'_>) -> Result<(), Unfit> {
        self.lives
            .push((LiveId::from_u64(line.number), line.read()?));
        Ok(())
    }

    /// Somebody who watches one.
    pub fn hear_viewer(&mut self, line: Line<'_>) -> Result<(), Unfit> {
        let (live, viewer): (LiveId, Viewer<ConnectionId>) = line.read()?;
        let viewers = self.viewers.entry(live).or_default();
        viewers.push((ViewerId::from_u64(line.number), viewer));
        Ok(())
    }
}

impl Viewing {
    /// How the request was answered.
    pub fn reply_mut(&mut self) -> &mut Reply {
        &mut self.reply
    }
}

#[cfg(test)]
#[cfg(feature = "default")]
mod tests;
