//! Segment numbers of a session: no stream has lower ones than the session's earlier streams, since
//! a player that played an earlier stream may go on with this one.
//!
//! A stream's numbers run ahead of their clock by at most some seconds ([`Plan`]). So only streams
//! that end and are removed within that time have to be remembered.

use std::time::Duration;

use super::{Stream, Streams};
use crate::gate::SessionId;
use crate::hls::Plan;
use crate::relay::context::Context;
use crate::token_bucket::Rate;

/// The bucket of a session is full when the clock has reached the numbers that the session used.
const SECONDS: Rate = Rate::per_second(1);

/// Returns a plan that begins now, and has the clock of numbers alone.
fn empty_plan(ctx: &Context) -> Plan {
    Plan {
        segment: Duration::ZERO,
        buffer_bytes: 0,
        tag: 0,
        started: Duration::from_secs(ctx.settings().started_unix_seconds),
        began: ctx.now(),
        number_min: 0,
    }
}

impl Streams {
    /// Returns how a new stream of a session is cut into segments, if HLS is on.
    pub(super) fn plan(&mut self, session: &SessionId, ctx: &mut Context) -> Option<Plan> {
        if !ctx.settings().serves_hls {
            return None;
        }
        let plan = empty_plan(ctx);
        let draining = self.draining.of(session);
        let earlier: Vec<_> = draining.flat_map(|id| self.with_remuxed(id)).collect();
        let next = |id| Some(self.streams.get_mut(id)?.buffer.segments()?.next_number());
        let unused = earlier.into_iter().filter_map(next).max().unwrap_or(0);
        let ahead = self.numbers.get(session).fill_time(ctx.now());
        Some(Plan {
            segment: ctx.settings().limits.hls_segment_time,
            tag: ctx.random.draw() as u32,
            number_min: unused.max(plan.number_at(ctx.now() + ahead)),
            ..plan
        })
    }

    /// Remembers the numbers of a stream that is removed.
    pub(super) fn keep_numbers(&mut self, stream: &mut Stream, ctx: &mut Context) {
        let next = stream.buffer.segments().map(|cutter| cutter.next_number());
        let Some(next) = next else {
            return;
        };
        let now = ctx.now();
        let session = stream.session.clone();
        let reached = now + self.numbers.get(&session).fill_time(now);
        let seconds = empty_plan(ctx).seconds_until(next, reached);
        self.numbers.take(session, seconds, SECONDS, now);
    }
}
