//! What is on its way to UDP clients goes to another process as it is.

use super::{POST_BYTES_MAX, Post};
use crate::gate::MATRICES_MAX;
use crate::handover::{HandoverError, are_counts, must};

impl Post {
    /// What was told of it can be.
    pub fn fit(&mut self) -> Result<(), HandoverError> {
        let letters = self.letters.iter().map(|letter| letter.held_bytes());
        self.letters_bytes = letters.sum();
        let sources = self
            .clients
            .iter()
            .filter(|client| self.source == Some(client.address));
        let mut figures = self.figures.iter();
        let is_fit = are_counts([self.bytes_sent])
            && figures.all(|figures| are_counts([figures.sent, figures.dropped]))
            && self.figures.len() == self.clients.len()
            && self.next_place <= self.clients.len()
            && self.client_count == self.clients.len() - sources.count()
            && self
                .letters
                .iter()
                .all(|letter| letter.datagram_bytes > 0 && !letter.bytes.is_empty())
            && self.letters_bytes <= 2 * POST_BYTES_MAX
            && self.corrections.len() <= MATRICES_MAX
            && self.corrections.iter().all(|(_, fec)| fec.fits());
        must(is_fit, || "letters that are for nobody".to_owned())
    }
}
