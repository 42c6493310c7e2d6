//! What of a source is more than its token allows. One that comes over HTTP waits, for it is not
//! read; of datagrams what is too much is dropped, whole and counted, as a network does that has no
//! room for them. Of each source it is said once.

use super::{Live, Streams};
use crate::relay::allowance::Allowance;
use crate::relay::counts::Count;
use crate::relay::desk::Desk;
use crate::relay::happening::Happening;
use crate::relay::{Level, LiveId};

impl Streams {
    /// A stream's source, which sends datagrams, may be so fast, in bits a second.
    pub fn limit_source(&mut self, id: LiveId, most: Option<u64>, desk: &Desk) {
        if let Some(live) = self.lives.get_mut(id) {
            live.quota = most.map(|most| Allowance::new(most, desk.now()));
        }
    }

    /// A stream's source, which sends no datagrams, is faster than its token allows, in bits a
    /// second.
    pub fn tell_of_excess(&self, id: LiveId, most: u64, desk: &mut Desk) {
        if let Some(live) = self.lives.get(id) {
            live.tell_of_excess("waits", most, desk);
        }
    }
}

impl Live {
    /// Whether a datagram of its source, of so many bytes, is not too much.
    pub(super) fn admits(&mut self, bytes: usize, desk: &mut Desk) -> bool {
        let quota = self.quota.as_mut();
        let refused = quota.and_then(|quota| {
            let is_admitted = quota.admits(bytes, desk.now());
            (!is_admitted).then(|| (quota.refused(), quota.bits_per_second()))
        });
        if let Some((count, most)) = refused {
            desk.count(Count::TooFast, 1);
            if count == 1 {
                self.tell_of_excess("dropped", most, desk);
            }
        }
        refused.is_none()
    }

    /// What is too much of its source becomes this, as the events name it.
    fn tell_of_excess(&self, what: &'static str, most: u64, desk: &mut Desk) {
        let digest = self.session.digest();
        let source = self.source_address;
        desk.log(
            Level::Warn,
            format_args!(
                "event=source-too-fast session={digest} source={source} what={what} max_bitrate={most}"
            ),
        );
        let happening = Happening::SourceTooFast {
            id: self.id(desk.run()),
            source,
            what,
            max_bitrate: most,
        };
        desk.tell(&self.session, &happening);
    }
}
