//! Remuxed streams: a stream in another container, for the viewers that ask for it.
//!
//! A remuxed stream is a stream like any other ([`Stream`]). A [`Remuxer`] makes its bytes from the
//! bytes of its original, once for all viewers. It has viewers, segments and UDP clients of its
//! own. There is at most one for each container, while anybody watches it:
//!
//! ```text
//!   requested ─→ begins where a viewer would ─┬─ its last viewer leaves ─→ gone
//!                                             ├─ the original ends ─→ drains ─→ gone
//!                                             └─ an error ─→ drains ─→ gone; it is not tried again
//!                                                with this source
//! ```
//!
//! The original stays until its remuxed streams are gone. An error ends the remuxed stream alone.
//! `--buffers` bounds how many there are: each one reserves a whole buffer when it begins. The cost
//! of remuxing counts as work of the client that sent the bytes or asked for the stream
//! ([`Streams::take_work`]). A new one reads the most of its original's buffer later
//! ([`super::catching_up`]).

use std::time::Duration;

use super::remux_target::{Fed, PIECE_BYTES, RemuxTarget, RemuxedStream, STEP_BYTES, STEP_WORK};
use super::viewer::WatchResponse;
use super::{Stream, Streams};
use crate::format::Format;
use crate::gate::SessionId;
use crate::http::{RETRY_AFTER_SECONDS, Refusal, Reply, Status};
use crate::relay::context::Context;
use crate::relay::counts::Count;
use crate::relay::event::Event;
use crate::relay::{ConnectionId, Level, StreamId};
use crate::remux::{MediaError, Remuxer, Target};
use crate::stream::{Detected, End, Figures, StreamBuffer};

/// Bytes of the shared output buffer that stay allocated: a fragment of MP4 of 16 Mbit/s. Larger
/// ones take new pages from the kernel each time.
pub(super) const ROOM_BYTES: usize = 1024 * 1024;

/// A new stream reads this fraction of `--buffer` at once. It is more than a block.
const BEGIN_PART: usize = 8;
/// Time until the next attempt, if memory was missing.
const CAST_AGAIN_TIME: Duration = Duration::from_secs(RETRY_AFTER_SECONDS as u64);

/// Why a stream is not remuxed.
pub(super) enum RemuxError {
    /// The stream's format is not known yet.
    NotYet,
    /// It cannot be remuxed, for this reason.
    Unfit(String),
    /// There is no memory for another buffer.
    NoRoom,
}

impl RemuxError {
    fn refusal(self, target: Target) -> Refusal {
        let name = target.format().name();
        match self {
            RemuxError::NotYet => {
                Refusal::busy("too few bytes of the stream have come to recognise its container")
            }
            RemuxError::Unfit(why) => Refusal::new(
                Status::NotAcceptable,
                format!(
                    "the stream cannot be remuxed to {name}: {why}. H.264, H.265, AAC, MP3, AC-3 and Opus in FLV, Matroska, fragmented MP4 or MPEG-TS can, \
                     and to mp4 also AV1, VP8 and VP9. The stream itself is at /stream/SESSIONID"
                ),
            ),
            RemuxError::NoRoom => Refusal::busy(format!(
                "remuxing to {name} needs one more --buffer, and --buffers has none left; try again later, or raise --buffers. The stream itself \
                 is at /stream/SESSIONID"
            )),
        }
    }
}

/// Returns the container in which a stream of this format is cut into segments, if that is another.
/// MPEG-TS carries everything that is usual in FLV; Matroska may hold any codec.
fn segmented_as(format: Format) -> Option<Target> {
    let wanted = match format {
        Format::Flv => Format::MpegTs,
        Format::Matroska | Format::WebM => Format::Mp4,
        Format::MpegTs | Format::Mp4 | Format::Mp3 | Format::Aac | Format::Ogg => return None,
    };
    target_of(wanted)
}

fn target_of(format: Format) -> Option<Target> {
    Target::ALL
        .into_iter()
        .find(|target| target.format() == format)
}

impl Streams {
    /// Adds a client to the viewers of a session in this container, if the session runs.
    pub fn watch_in(
        &mut self,
        id: ConnectionId,
        (session, target): (&SessionId, Target),
        (reply, may_wait): (Reply, bool),
        ctx: &mut Context,
    ) -> Option<WatchResponse> {
        let original = *self.running.get(session)?;
        let stream = match reply.head_only {
            // HEAD is no reason to remux a stream.
            true => self.remuxed_of(original, target, ctx),
            false => self.remux_target(original, target, ctx).map(Some),
        };
        match stream {
            Ok(Some(stream)) => self.view(id, stream, reply, ctx),
            Ok(None) => {
                let stream = self.streams.get(original)?;
                Some(stream.head(target.format().media_type(), reply, ctx))
            }
            Err(RemuxError::NotYet) if may_wait && !reply.head_only => {
                let idle_time = ctx.settings().limits.source_idle_time;
                Some(WatchResponse::NotYet(ctx.now() + idle_time))
            }
            Err(why) => Some(WatchResponse::Refused(why.refusal(target))),
        }
    }

    /// Adds a client that gets the newest key frame of a session as MP4, if the session runs. It is a
    /// viewer of the remuxed stream up to the end of the first fragment.
    pub fn watch_poster(
        &mut self,
        id: ConnectionId,
        session: &SessionId,
        how: (Reply, bool),
        ctx: &mut Context,
    ) -> Option<WatchResponse> {
        let target = target_of(Format::Mp4)?;
        let watched = self.watch_in(id, (session, target), how, ctx)?;
        Some(match watched {
            WatchResponse::Viewer(viewing) => {
                let (stream, viewer) = viewing.key();
                if let Some(stream) = self.streams.get_mut(stream) {
                    stream.buffer.bound(viewer);
                }
                WatchResponse::Segment(Vec::new(), viewing.of_fragment())
            }
            other => other,
        })
    }

    /// Returns the stream whose segments a player gets: the stream itself, or one that is remuxed
    /// from it. `None`: HEAD asks for a stream that only GET begins to remux.
    pub(super) fn playable(
        &mut self,
        id: StreamId,
        head_only: bool,
        ctx: &mut Context,
    ) -> Result<Option<StreamId>, Refusal> {
        let detected = self.streams.get(id).map(|stream| stream.buffer.detected());
        let of_format = match detected {
            Some(Detected::Known(format)) => segmented_as(format),
            Some(Detected::Undecided | Detected::Unknown) | None => None,
        };
        let Some(target) = of_format.filter(|_| ctx.settings().remuxes) else {
            return Ok(Some(id));
        };
        let stream = match head_only {
            true => self.remuxed_of(id, target, ctx),
            false => self.remux_target(id, target, ctx).map(Some),
        };
        stream.map_err(|why| why.refusal(target))
    }

    /// Returns whether this stream's segments are its session's: of a remuxed stream, only if the
    /// original has none.
    pub(super) fn is_played(&self, id: StreamId) -> bool {
        self.remuxed_as(id).is_none_or(|remuxed| {
            let original = self.streams.get(remuxed.original);
            let detected = original.map(|original| original.buffer.detected());
            matches!(detected, Some(Detected::Known(format)) if segmented_as(format) == Some(remuxed.target))
        })
    }

    /// Returns the stream that goes to a stream's UDP clients: itself, or one remuxed from it.
    pub(super) fn sendable(
        &mut self,
        id: StreamId,
        is_wanted: bool,
        ctx: &mut Context,
    ) -> StreamId {
        let Some(stream) = self.streams.get_mut(id) else {
            return id;
        };
        stream.cast_again_at = None;
        let has_ended = stream.buffer.end().is_some();
        let is_readable =
            matches!(stream.buffer.detected(), Detected::Known(format) if Remuxer::reads(format));
        let target = target_of(Format::MpegTs);
        let Some(target) = target.filter(|_| is_readable && ctx.settings().remuxes) else {
            return id;
        };
        if let Some(remuxed) = stream.target(target).and_then(|its| its.stream) {
            return remuxed;
        }
        if !is_wanted || has_ended {
            return id;
        }
        match self.remux_target(id, target, ctx) {
            Ok(remuxed) => return remuxed,
            Err(RemuxError::NotYet | RemuxError::Unfit(_)) => {}
            // Its UDP clients get nothing until there is memory.
            Err(RemuxError::NoRoom) => {
                if let Some(stream) = self.streams.get_mut(id) {
                    stream.cast_again_at = Some(ctx.now() + CAST_AGAIN_TIME);
                    stream.rearm(id, ctx);
                }
            }
        }
        id
    }

    /// Returns the stream in this container: itself, or one remuxed from it. `None`: it has yet to
    /// begin.
    fn remuxed_of(
        &self,
        original: StreamId,
        target: Target,
        ctx: &Context,
    ) -> Result<Option<StreamId>, RemuxError> {
        let stream = self.streams.get(original).ok_or(RemuxError::NotYet)?;
        let format = match stream.buffer.detected() {
            Detected::Undecided => return Err(RemuxError::NotYet),
            Detected::Unknown => {
                return Err(RemuxError::Unfit("its container is not known".into()));
            }
            Detected::Known(format) => format,
        };
        if format == target.format() {
            return Ok(Some(original));
        }
        if let Some(its) = stream.target(target) {
            if let Some(fault) = &its.fault {
                return Err(RemuxError::Unfit(fault.to_string()));
            }
            if its.stream.is_some() {
                return Ok(its.stream);
            }
        }
        if !Remuxer::reads(format) {
            return Err(RemuxError::Unfit(format!("it is {}", format.name())));
        }
        let limits = &ctx.settings().limits;
        let has_buffer = self.pool.bytes_left >= limits.stream.buffer_bytes as isize;
        match has_buffer && self.all_remuxed().count() < limits.remuxed_max() {
            true => Ok(None),
            false => Err(RemuxError::NoRoom),
        }
    }

    /// Returns the stream in this container, and begins to remux it if needed.
    pub(super) fn remux_target(
        &mut self,
        original: StreamId,
        target: Target,
        ctx: &mut Context,
    ) -> Result<StreamId, RemuxError> {
        let found = self.remuxed_of(original, target, ctx);
        if matches!(found, Err(RemuxError::NoRoom)) {
            self.make_room_for_remuxed(original, ctx);
        }
        if let Some(stream) = found? {
            return Ok(stream);
        }
        let begun = self.begin_remuxed(original, target, ctx);
        let stream = self.streams.get_mut(original).ok_or(RemuxError::NotYet)?;
        let (digest, name) = (stream.session.digest(), target.format().name());
        let caused_by = stream.caused_by();
        let (id, fault) = match &begun {
            Ok(id) => {
                ctx.count(Count::Remuxed, 1);
                let line = format_args!("event=remux-begins session={digest} to={name}");
                ctx.log(Level::Info, caused_by, line);
                (Some(*id), None)
            }
            Err(RemuxError::Unfit(why)) => {
                let line =
                    format_args!("event=not-remuxed session={digest} to={name} detail=\"{why}\"");
                ctx.log(Level::Warn, caused_by, line);
                (None, Some(why.as_str().into()))
            }
            Err(RemuxError::NotYet | RemuxError::NoRoom) => return begun,
        };
        stream.remux_targets.retain(|its| its.target != target);
        stream.remux_targets.push(RemuxTarget {
            target,
            stream: id,
            fault,
        });
        begun
    }

    /// Begins to remux a stream, from where a new viewer would begin: so there is output at once.
    fn begin_remuxed(
        &mut self,
        original: StreamId,
        target: Target,
        ctx: &mut Context,
    ) -> Result<StreamId, RemuxError> {
        let not_read = || RemuxError::Unfit("its container cannot be read".to_owned());
        let session = self.session(original).ok_or_else(not_read)?;
        let plan = self.plan(&session, ctx);
        let (now, limits) = (ctx.now(), &ctx.settings().limits);
        let unit_max = limits.remuxed_unit_bytes_max();
        let stream = self.streams.get(original).ok_or_else(not_read)?;
        let Detected::Known(format) = stream.buffer.detected() else {
            return Err(not_read());
        };
        let remuxer = Remuxer::new(format, target, unit_max).ok_or_else(not_read)?;
        let media_type = Some(target.format().media_type().into());
        let mut buffer = StreamBuffer::new(limits.stream, media_type, now);
        if !buffer.reserve(&mut self.pool) {
            return Err(RemuxError::NoRoom);
        }
        if let Some(plan) = plan {
            buffer.cut_into_segments(plan);
        }
        let (lead, mut at) = stream.buffer.opening(now);
        let mut remuxed = RemuxedStream::new((original, stream.serial), target, remuxer);
        remuxed.began = at;
        let mut out = std::mem::take(&mut self.remuxed);
        let mut piece: &[u8] = &lead;
        // Only a fraction of the new stream's buffer, or its beginning would be overwritten.
        let mut bytes_left = STEP_BYTES.min(limits.stream.buffer_bytes / BEGIN_PART);
        let (mut fed, mut work) = (Ok(()), 0);
        loop {
            for piece in piece.chunks(PIECE_BYTES) {
                let of_piece = remuxed.feed(at, piece, &mut out);
                buffer.append(&out, &mut self.pool, now);
                out.clear();
                work += of_piece.work;
                fed = fed.and(of_piece.result);
            }
            piece = stream.buffer.slice(at, bytes_left.min(PIECE_BYTES));
            if piece.is_empty() || fed.is_err() || work >= STEP_WORK {
                break;
            }
            at += piece.len() as u64;
            bytes_left -= piece.len();
        }
        self.work += work;
        remuxed.read_offset = Some(at);
        self.remuxed = out;
        let fault = fed.map_or_else(|fault| Some(fault.0.to_owned()), |()| remuxed.emptiness());
        if let Some(why) = fault {
            buffer.release(&mut self.pool);
            return Err(RemuxError::Unfit(why));
        }
        let new = stream.remuxed(self.serial_next, buffer, remuxed);
        let id = self.streams.insert(new);
        self.order.insert(self.serial_next, id);
        self.serial_next += 1;
        self.catching_up.push_back(id);
        Ok(id)
    }

    /// Feeds new bytes to the remuxed streams that keep up. If the bytes are many, these streams read
    /// them from the original's buffer, over several turns.
    pub(super) fn feed_remuxed(&mut self, id: StreamId, bytes: &[u8], ctx: &mut Context) {
        let newest = self.streams.get(id).map(|stream| stream.buffer.newest());
        let begin = newest.map_or(0, |newest| newest - bytes.len() as u64);
        for id in self.all_remuxed_of(id) {
            let stream = self.streams.get_mut(id);
            let remuxed = stream.and_then(|stream| stream.remuxed.as_mut());
            let Some(remuxed) = remuxed.filter(|remuxed| remuxed.unread_from().is_none()) else {
                continue;
            };
            if bytes.len() > STEP_BYTES {
                remuxed.read_offset = Some(begin);
                self.catching_up.push_back(id);
                self.catch_up(id, STEP_BYTES, STEP_WORK, ctx);
                continue;
            }
            for (index, piece) in bytes.chunks(PIECE_BYTES).enumerate() {
                let at = begin + (index * PIECE_BYTES) as u64;
                let mut out = std::mem::take(&mut self.remuxed);
                let stream = self.streams.get_mut(id);
                let remuxed = stream.and_then(|stream| stream.remuxed.as_mut());
                if let Some(fed) = remuxed.map(|remuxed| remuxed.feed(at, piece, &mut out)) {
                    self.take_remuxed(id, fed, out, ctx);
                }
            }
        }
        self.remuxed.shrink_to(ROOM_BYTES);
    }

    /// Appends the output of a piece to a remuxed stream.
    pub(super) fn take_remuxed(
        &mut self,
        id: StreamId,
        fed: Fed,
        mut out: Vec<u8>,
        ctx: &mut Context,
    ) {
        self.work += fed.work;
        self.append_to_one(id, &out, ctx);
        out.clear();
        self.remuxed = out;
        let stream = self
            .streams
            .get(id)
            .filter(|stream| stream.buffer.newest() == 0);
        let remuxed = stream.and_then(|stream| stream.remuxed.as_ref());
        let emptiness = remuxed.and_then(RemuxedStream::emptiness);
        let fault = fed.result.err().map(|MediaError(why)| why.to_owned());
        if let Some(why) = fault.or(emptiness) {
            ctx.notify(Event::RemuxFailed { id, why });
        }
    }

    /// Returns the response for a remuxed stream that has ended without output.
    pub(super) fn emptiness(&self, id: StreamId) -> Option<Refusal> {
        let stream = self.streams.get(id)?;
        let remuxed = stream.remuxed.as_ref()?;
        if stream.buffer.end().is_none() || stream.buffer.newest() > 0 {
            return None;
        }
        let original = self.streams.get(remuxed.original);
        let its = original.and_then(|original| original.target(remuxed.target));
        let fault = its.and_then(|its| its.fault.as_deref());
        let why = fault.unwrap_or("it ended before the first track that can be carried");
        Some(RemuxError::Unfit(why.to_owned()).refusal(remuxed.target))
    }

    /// Returns the work of scanning, splicing and remuxing since the last call, as the number of
    /// bytes that take as long to pass on.
    pub fn take_work(&mut self) -> usize {
        std::mem::take(&mut self.work)
    }

    /// Returns the work since the last call of [`Streams::take_work`].
    pub fn work(&self) -> usize {
        self.work
    }

    /// Ends a remuxed stream after an error. Its original goes on.
    pub fn drop_remuxed(&mut self, id: StreamId, why: &str, ctx: &mut Context) {
        if let Some(stream) = self.streams.get(id)
            && let Some(RemuxedStream {
                original, target, ..
            }) = stream.remuxed
        {
            let (digest, name) = (stream.session.digest(), target.format().name());
            let line =
                format_args!("event=remux-fails session={digest} to={name} detail=\"{why}\"");
            ctx.log(Level::Warn, stream.caused_by(), line);
            if let Some(its) = self.target_mut(original, target) {
                its.fault = Some(why.into());
            }
        }
        self.end_one_remuxed(id, End::Lost, ctx);
    }

    /// Ends a remuxed stream.
    pub(super) fn end_one_remuxed(&mut self, id: StreamId, end: End, ctx: &mut Context) {
        let stream = self.streams.get_mut(id);
        if let Some(stream) = stream.filter(|stream| stream.buffer.end().is_none()) {
            let mut rest = Vec::new();
            if let Some(remuxed) = &mut stream.remuxed {
                remuxed.finish(&mut rest);
            }
            self.append_to_one(id, &rest, ctx);
            self.close_stream(id, end, ctx);
        }
    }

    /// Forgets the errors of the previous source: the next source may be remuxed.
    pub(super) fn clear_remux_errors(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.remux_targets.retain_mut(|its| {
                its.fault = None;
                its.stream.is_some()
            });
        }
    }

    /// Ends a remuxed stream without viewers and clients. Returns its original, if it is one.
    pub(super) fn tend_remuxed(&mut self, id: StreamId, ctx: &mut Context) -> Option<StreamId> {
        let stream = self.streams.get(id)?;
        let original = stream.remuxed.as_ref()?.original;
        if !stream.is_wanted() {
            // Nobody reads the end that it gets.
            self.end_one_remuxed(id, End::Complete, ctx);
        }
        self.forget_if_over(id, ctx);
        Some(original)
    }

    /// Removes a remuxed stream from its original, which may go now, too.
    pub(super) fn forget_remuxed(&mut self, stream: &Stream, id: StreamId, ctx: &mut Context) {
        if let Some(RemuxedStream {
            original, target, ..
        }) = stream.remuxed
        {
            if let Some(its) = self.target_mut(original, target) {
                its.stream = its.stream.filter(|stream| *stream != id);
            }
            if let Some(original) = self.streams.get_mut(original) {
                // It received its original's bytes, which count already.
                original.ended_remuxed += Figures {
                    bytes_received: 0,
                    ..stream.figures()
                };
                original.cuts.add(stream.cuts);
            }
            let (digest, name) = (stream.session.digest(), target.format().name());
            let line = format_args!("event=remux-ends session={digest} to={name}");
            ctx.log(Level::Info, stream.caused_by(), line);
            self.forget_if_over(original, ctx);
        }
    }

    fn target_mut(&mut self, original: StreamId, target: Target) -> Option<&mut RemuxTarget> {
        let mut targets = self.streams.get_mut(original)?.remux_targets.iter_mut();
        targets.find(|its| its.target == target)
    }

    /// Returns the streams that are remuxed from this one.
    pub(super) fn all_remuxed_of(&self, id: StreamId) -> impl Iterator<Item = StreamId> + use<> {
        let stream = self.streams.get(id);
        let targets = stream.map_or(&[][..], |stream| &stream.remux_targets);
        let remuxed = |place: usize| targets.get(place).and_then(|target| target.stream);
        let all: [_; Target::ALL.len()] = std::array::from_fn(remuxed);
        all.into_iter().flatten()
    }

    /// Returns a stream and its remuxed streams.
    pub(super) fn with_remuxed(&self, id: StreamId) -> impl Iterator<Item = StreamId> + use<> {
        std::iter::once(id).chain(self.all_remuxed_of(id))
    }

    /// Returns a stream and its remuxed streams, as [`Streams::with_remuxed`] their ids.
    pub(super) fn in_all_containers(&self, id: StreamId) -> impl Iterator<Item = &Stream> {
        let ids = self.with_remuxed(id);
        ids.filter_map(|id| self.streams.get(id))
    }

    /// Returns how a stream is remuxed, if it is.
    pub fn remuxed_as(&self, id: StreamId) -> Option<&RemuxedStream> {
        self.streams.get(id)?.remuxed.as_ref()
    }

    /// Returns a stream's original, or itself.
    pub fn original_of(&self, id: StreamId) -> StreamId {
        self.remuxed_as(id).map_or(id, |remuxed| remuxed.original)
    }

    /// Returns the number of a stream's viewers, in all containers.
    pub(super) fn viewers_in_all_containers(&self, id: StreamId) -> usize {
        let all = self.in_all_containers(id);
        all.map(|stream| stream.buffer.viewer_count()).sum()
    }

    /// Returns whether anybody watches a stream, in any container.
    pub(super) fn is_watched_in_any_container(&self, id: StreamId) -> bool {
        self.in_all_containers(id).any(Stream::is_watched)
    }

    /// Returns how many bytes of a stream's source may be read at once, for all its viewers and UDP
    /// clients.
    pub(super) fn wanted_bytes(&self, id: StreamId, ctx: &Context) -> usize {
        if self.is_ahead(id, ctx) {
            return 0;
        }
        let original = self.streams.get(id);
        let Some(original) = original.filter(|original| original.spliced.is_empty()) else {
            return 0;
        };
        let wanted = original.buffer.wanted_bytes(&self.pool);
        let all_remuxed = original.remux_targets.iter();
        let all_remuxed = all_remuxed.filter_map(|target| self.streams.get(target.stream?));
        all_remuxed.fold(wanted, |wanted, stream| {
            let its = stream.buffer.wanted_bytes(&self.pool);
            let remuxed = stream.remuxed.as_ref();
            wanted.min(remuxed.map_or(its, |remuxed| remuxed.wanted_of(its)))
        })
    }

    /// Returns all remuxed streams.
    pub(super) fn all_remuxed(&self) -> impl Iterator<Item = (StreamId, &Stream)> {
        let streams = self.streams.iter();
        streams.filter(|(_, stream)| stream.remuxed.is_some())
    }
}

#[cfg(test)]
mod tests;
