//! Where the parts of the server meet. What one of them does never reaches into another: it says
//! what has happened, and that is heard here, when nobody is in the middle of anything. Every input
//! of [`Relay`] ends with this.

use super::connection::Phase;
use super::live::Origin;
use super::{ConnectionId, Relay, streams};

/// What the clients say.
pub(super) enum Said {
    /// This connection is over, in this phase of it. Its id is stale already.
    Gone(ConnectionId, Phase),
}

impl Relay {
    /// Takes what was said until nothing is left.
    pub(super) fn settle(&mut self) {
        loop {
            if let Some(said) = self.streams.said() {
                self.hear_streams(said);
            } else if let Some(Said::Gone(id, phase)) = self.clients.said.pop_front() {
                self.hear_gone(id, phase);
            } else {
                return;
            }
        }
    }

    fn hear_streams(&mut self, said: streams::Said) {
        match said {
            streams::Said::Cut(viewer, cut) => self.cut_viewer(viewer, cut),
            streams::Said::CutOff(viewer) => self.clients.close(viewer, &mut self.desk),
            streams::Said::SourceLeft { source, id } => {
                // It may have come back since.
                if let Origin::Rtp(address) = source
                    && !self.streams.has_as_source(id, source)
                {
                    self.rtp_in.forget_rtp_source(address, id);
                }
            }
            streams::Said::PullOver {
                pull,
                end,
                has_viewers,
            } => self.pulled_stream_ended(pull, end, has_viewers),
        }
    }

    fn hear_gone(&mut self, id: ConnectionId, phase: Phase) {
        match phase {
            Phase::Source(source) => {
                self.source_lost(source.live, Origin::Http(id), "the connection broke");
            }
            Phase::Viewer(viewer) => self.viewer_left(viewer.live, viewer.viewer),
            Phase::Waiting(waiting) => self.waiting_left(id, &waiting),
            Phase::Asking(asking) => self.asking_ended(id, &asking),
            Phase::Awaiting(ticket) => {
                self.lists.take_errand(ticket);
                self.drop_gathering(ticket);
            }
            Phase::Listing(listing) => {
                if let Some(ticket) = listing.gathering {
                    self.drop_gathering(ticket);
                }
            }
            Phase::Telling(telling) => self.telling_ended(&telling),
            Phase::Introduction
            | Phase::Head(_)
            | Phase::Payload(_)
            | Phase::Recording
            | Phase::Lingering(_) => {}
        }
    }
}
