//! The hand-over of tokens and blocks.

use std::net::IpAddr;

use super::{Grants, PendingChanges};
use crate::gate::{SessionId, Tokens};
use crate::handover::{HandoverError, Line, Writer, must};
use crate::relay::context::Context;
use crate::time::{Instant, UnixTime};

impl Grants {
    /// Writes the blocks and the table of tokens.
    pub fn hand_over(&self, writer: &mut Writer<'_>) {
        let blocks: Vec<_> = self.blocks.iter().collect();
        let blocked_viewers: Vec<_> = self.blocked_viewers.iter().collect();
        let is_kept = self.pending.is_some();
        writer.put(
            "grants",
            0,
            &(self.tokens.is_some(), is_kept, self.reported),
        );
        writer.put("blocks", 0, &blocks);
        writer.put("barred", 0, &blocked_viewers);
        if let Some(tokens) = &self.tokens {
            tokens.hand_over(writer);
        }
    }

    /// Receives what kind of table the predecessor has. `is_kept`: this server has a token file.
    pub fn receive(
        &mut self,
        line: Line<'_>,
        is_kept: bool,
        ctx: &Context,
    ) -> Result<(), HandoverError> {
        let (has_tokens, was_kept, reported): (bool, bool, UnixTime) = line.read()?;
        must(is_kept == was_kept, || {
            "one of the two servers has --token-file; start both with it".to_owned()
        })?;
        // A file is a table, too.
        must(has_tokens == (self.tokens.is_some() || is_kept), || {
            "one of the two servers has --token-server; start both with it".to_owned()
        })?;
        if has_tokens {
            self.tokens = Some(Tokens::new(ctx.settings().limits.tokens));
        }
        self.reported = reported;
        self.pending = is_kept.then(PendingChanges::default);
        Ok(())
    }

    /// Removes the addresses of UDP clients that these settings do not admit. Returns the number of tokens
    /// without an address now.
    pub fn silence(&mut self, ctx: &Context) -> usize {
        let is_allowed = |address, _| ctx.settings().may_be_named(address);
        let tokens = self.tokens.as_mut();
        tokens.map_or(0, |tokens| tokens.retain_addresses(is_allowed))
    }

    /// Receives a line of the table.
    pub fn receive_token(&mut self, line: Line<'_>) -> Result<(), HandoverError> {
        match (&mut self.tokens, line.name) {
            (Some(tokens), "token") => tokens.receive(line),
            (Some(tokens), _) => tokens.receive_end(line),
            (None, _) => Err(HandoverError("a token, where there are none".to_owned())),
        }
    }

    /// Receives blocks.
    pub fn receive_blocks(&mut self, line: Line<'_>, ctx: &Context) -> Result<(), HandoverError> {
        let now = ctx.now();
        let have_room = match line.name {
            "blocks" => {
                let blocks: Vec<(SessionId, Instant)> = line.read()?;
                let mut blocks = blocks.iter();
                blocks.all(|(session, until)| self.blocks.add(session, *until, now))
            }
            _ => {
                let blocked_viewers: Vec<((SessionId, IpAddr), Instant)> = line.read()?;
                let mut blocked_viewers = blocked_viewers.iter();
                blocked_viewers.all(|(whom, until)| self.blocked_viewers.add(whom, *until, now))
            }
        };
        must(have_room, || "more are kept out than may be".to_owned())
    }
}
