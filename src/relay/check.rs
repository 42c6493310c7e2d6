//! The invariants of the core, for tests and simulations.

use super::Relay;
use super::clients::OtherParts;

impl Relay {
    /// Checks what must hold between any two calls. Tests and simulations call it after every step.
    pub fn check(&self) {
        let others = OtherParts {
            has_stream: &|stream| self.streams.has(stream),
            runs: &|session| self.streams.runs(session),
            has_collecting: &|job_id| self.lists.has_collecting(job_id),
        };
        let of_clients = self.clients.check(&others, &self.ctx);
        self.lists
            .check(|id, job_id| self.clients.awaits(id, job_id));
        let is_pulls = |session: &_, stream, pull| self.streams.is_pulls(session, stream, pull);
        let armed = of_clients
            + self.streams.check(&self.ctx)
            + self.fetch.pulls.check(is_pulls)
            + self.grants.check()
            + self.rtp_in.check(|stream| self.streams.has(stream))
            + self.ctx.check();
        assert_eq!(armed, self.ctx.timers.len(), "a timer outlives its owner");
    }
}
