//! Hands datagrams over that wait for UDP clients.

use super::{UdpOut, WAITING_BYTES_MAX};
use crate::gate::MATRICES_MAX;
use crate::handover::{HandoverError, must};

impl UdpOut {
    /// Checks what the other process sent, and restores what it did not send.
    pub fn restore(&mut self) -> Result<(), HandoverError> {
        let batches = self.batches.iter().map(|batch| batch.memory_bytes());
        self.waiting_bytes = batches.sum();
        let clients = self.clients.iter();
        let others = clients.filter(|client| self.source != Some(client.address));
        self.client_count = others.count();
        self.next_index = self.next_index.min(self.clients.len());
        let is_fit = self.figures.len() == self.clients.len()
            && self
                .batches
                .iter()
                .all(|batch| batch.datagram_bytes > 0 && !batch.bytes.is_empty())
            && self.waiting_bytes <= 2 * WAITING_BYTES_MAX
            && self.corrections.len() <= MATRICES_MAX
            && self.corrections.iter().all(|(_, fec)| fec.is_valid());
        must(is_fit, || "batches that are for nobody".to_owned())
    }
}
