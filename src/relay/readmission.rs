//! A successor may have other options than its predecessor. At the end of a take-over it checks each
//! client once, with the rules of [`super::admission`] for newcomers. It also checks each source of
//! datagrams and each stream that is fetched. It ends each one that these options do not admit, and
//! the log says why.
//!
//! Limits (`--connections-per-host`, `max-viewers`) count newcomers, as they do when a call of the
//! API lowers one. The predecessor has checked tokens already. Without tokens it has recorded no
//! viewers, so these do not count here.

use std::net::IpAddr;

use super::admission::EntryPoint;
use super::clients::{Activity, Waiting};
use super::old_options::OldOptions;
use super::streams::StreamSource;
use super::{ConnectionId, Relay};
use crate::http::{Refusal, Status};
use crate::rtp::Sender;
use crate::stream::End;

/// Reason in the log, and in the answer to a source.
const REASON: &str = "the options of this server no longer admit it";

impl Relay {
    /// Ends every client that these options would not admit, and the remuxed streams if they do not
    /// remux.
    pub(super) fn readmit(&mut self, old: &OldOptions) {
        self.readmit_udp();
        if old.had_other_origins(self.ctx.settings()) {
            self.end_pulls();
        }
        self.dispatch_events();
        let ids: Vec<ConnectionId> = self.clients.ids().collect();
        for id in ids {
            if let Err(refusal) = self.check_client_again(id, old) {
                self.end_client(id, &refusal);
                self.dispatch_events();
            }
        }
        if !self.ctx.settings().remuxes {
            self.streams.end_all_remuxed(&mut self.ctx);
            self.dispatch_events();
        }
    }

    /// Checks whether these options would admit a client for what it does now.
    fn check_client_again(&self, id: ConnectionId, old: &OldOptions) -> Result<(), Refusal> {
        let settings = self.ctx.settings();
        let refused = |detail: &str| Err(Refusal::new(Status::Forbidden, detail));
        let Some(activity) = self.clients.activity(id) else {
            return Ok(());
        };
        if !self.clients.is_named_still(id, old, settings) {
            return refused(
                "by the options of this server, another proxy has to name the client of this connection",
            );
        }
        let gate = self.grants.gate(&self.ctx);
        match activity {
            Activity::Idle => Ok(()),
            Activity::Asks(access_request) => {
                if access_request.entry_point == EntryPoint::Icecast && !settings.admits_icecast {
                    return refused(
                        "this server accepts no Icecast sources; start it with --icecast",
                    );
                }
                gate.enter(&access_request)
            }
            Activity::Watches(access_request, stream) => {
                let entry_point = access_request.entry_point;
                let is_remuxed =
                    stream.is_some_and(|stream| self.streams.remuxed_as(stream).is_some());
                if (is_remuxed || entry_point == EntryPoint::Remuxed) && !settings.remuxes {
                    return refused("this server does not remux; start it with --remux=on");
                }
                if entry_point == EntryPoint::Hls && !settings.serves_hls {
                    return refused("this server does not serve HLS; start it with --hls=on");
                }
                gate.enter(&access_request)?;
                let by_origin = old.asks_origin && !settings.asks_origin;
                let credential = self.clients.admitted_by(id).filter(|_| by_origin);
                match credential.is_none_or(|credential| gate.has_watch_token(credential)) {
                    true => Ok(()),
                    false => {
                        refused("only the origin had admitted it, which is not asked any more")
                    }
                }
            }
        }
    }

    fn end_client(&mut self, id: ConnectionId, refusal: &Refusal) {
        let from = self.clients.peer(id).map(|peer| peer.ip());
        self.report_end(from, &refusal.detail);
        if let Some(Waiting { session, reply, .. }) = self.clients.end_wait(id) {
            self.clients.refuse(id, refusal, reply, &mut self.ctx);
            return self.tend_pull(&session);
        }
        if self.clients.source_of(id).is_some() || self.clients.viewer(id).is_some() {
            self.clients.expel(id, REASON, &mut self.ctx);
        } else {
            self.clients.close(id, &mut self.ctx);
        }
    }

    fn report_end(&mut self, from: Option<IpAddr>, detail: &str) {
        let from = from.map_or("nobody".to_owned(), |from| from.to_string());
        self.ctx.log_change(format_args!(
            "event=not-readmitted peer={from} detail=\"{detail}\""
        ));
    }

    /// Forgets addresses of tokens that `--rtp-to` or `--join` do not admit now, and ends sources of
    /// datagrams that may not send.
    fn readmit_udp(&mut self) {
        let silenced = self.grants.silence(&self.ctx);
        if silenced > 0 {
            self.ctx.log_change(format_args!(
                "event=udp-clients-silenced count={silenced} detail=\"--rtp-to or --join no longer admits them\""
            ));
        }
        let sources: Vec<_> = self.streams.sources().collect();
        for (id, source) in sources {
            let StreamSource::Rtp(named) = source else {
                continue;
            };
            let Some(known) = self.streams.known(id) else {
                continue;
            };
            let is_bare = known.ssrc.is_none();
            let sender = Sender {
                named,
                from: known.from,
            };
            let session = self.streams.session(id);
            let is_client =
                session.is_some_and(|session| self.grants.is_client(&session, named, is_bare));
            let gate = self.grants.gate(&self.ctx);
            if !is_client || gate.enter(&sender.access_request(is_bare)).is_err() {
                self.report_end(Some(known.from.ip()), REASON);
                self.streams.end(id, End::Lost, REASON, &mut self.ctx);
            }
        }
    }

    /// Ends all streams that are fetched. The successor does not know which origin each comes from,
    /// or that origin is gone. Viewers that come again have the stream fetched anew.
    fn end_pulls(&mut self) {
        for session in self.fetch.sessions() {
            self.report_end(None, "--origin has changed");
            self.fetch.drop(&session, &mut self.ctx);
            self.streams.abort(&session, &mut self.ctx);
            if !self.fetch.origins.is_empty() && self.clients.waiting.is_awaited(&session) {
                self.fetch.want_later(&session, &mut self.ctx);
            }
        }
    }
}

#[cfg(test)]
#[cfg(feature = "default")]
mod tests;
