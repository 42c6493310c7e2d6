//! Where the parts of the server meet. What one of them does never reaches into another: it says
//! what has happened, and that is heard here, when nobody is in the middle of anything. Every input
//! of [`Relay`] ends with this.

use super::clients::{Fate, Room};
use super::live::Origin;
use super::{Relay, clients, streams};

impl Relay {
    /// Takes what was said until nothing is left.
    pub(super) fn settle(&mut self) {
        loop {
            if let Some(said) = self.streams.said() {
                self.hear_streams(said);
            } else if let Some(said) = self.clients.said() {
                self.hear_clients(said);
            } else {
                return;
            }
        }
    }

    fn hear_streams(&mut self, said: streams::Said) {
        match said {
            streams::Said::Cut(viewer, cut) => self.cut_viewer(viewer, cut),
            streams::Said::CutOff(viewer) => self.clients.close(viewer, &mut self.desk),
            streams::Said::Grown(id) => {
                if let Some(session) = self.streams.session(id) {
                    self.clients
                        .call_waiting(Room::List, &session, Fate::Called);
                }
            }
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

    fn hear_clients(&mut self, said: clients::Said) {
        match said {
            clients::Said::SourceGone { live, id } => {
                self.source_lost(live, Origin::Http(id), "the connection broke");
            }
            clients::Said::ViewerGone(place) => self.viewer_left(place),
            clients::Said::WaiterGone(session) => self.tend_pull(&session),
            clients::Said::AskingEnded { pull, id, fault } => self.asking_ended(pull, id, fault),
            clients::Said::TellingEnded { gathering, peer } => self.telling_ended(gathering, peer),
            clients::Said::AskerGone(ticket) => {
                self.lists.take_errand(ticket);
                self.drop_gathering(ticket);
            }
        }
    }
}
