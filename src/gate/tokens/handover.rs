//! The table goes to another process tuple by tuple, each with its serial number.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Tokens;
use crate::gate::carriage::{Carriage, Matrix};
use crate::gate::grant::Note;

use crate::gate::session_id::SessionId;
use crate::gate::tuple::{ADDRESSES_MAX, Kind};
use crate::gate::udp_clients::UdpClient;
use crate::handover::{COUNT_MAX, Line, Unfit, Writer, must};
use crate::stamp::Stamp;

impl Tokens {
    /// Tells of each tuple.
    pub fn hand_over(&self, writer: &mut Writer<'_>) {
        for (serial, tuple) in &self.in_order {
            writer.put("token", *serial, &(&tuple.session, &tuple.kind));
        }
        writer.put("tokens", 0, &(self.time, self.serial_next));
    }

    /// A tuple that was told.
    pub fn hear(&mut self, line: Line<'_>) -> Result<(), Unfit> {
        let (session, kind): (SessionId, Kind) = line.read()?;
        let known = self.sessions.get(&session);
        let is_fit = match &kind {
            Kind::Http(_) => known.is_none_or(|known| known.http.is_none()),
            Kind::Rtp(rtp) => {
                let max = self.limits.udp_clients_per_session_max;
                rtp.addresses.len() <= ADDRESSES_MAX
                    && known.is_none_or(|known| known.rtp.len() < max)
            }
        };
        let is_new = line.number <= COUNT_MAX && !self.in_order.contains_key(&line.number);
        must(
            is_fit && is_new && self.len() < self.limits.tokens_max,
            || {
                format!(
                    "token {}: it is there already, or more than the {} that may be here",
                    line.number, self.limits.tokens_max
                )
            },
        )?;
        self.put(line.number, &session, kind);
        Ok(())
    }

    /// How late it has been, and what serial numbers count on from.
    pub fn hear_last(&mut self, line: Line<'_>) -> Result<(), Unfit> {
        let (time, serial_next): (Stamp, u64) = line.read()?;
        self.tell_time(time.min(Stamp::MAX));
        self.serial_next = self.serial_next.max(serial_next.min(COUNT_MAX));
        Ok(())
    }
}

impl<'de> Deserialize<'de> for SessionId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SessionId, D::Error> {
        let text = String::deserialize(deserializer)?;
        SessionId::parse(text.as_bytes()).map_err(serde::de::Error::custom)
    }
}

impl Serialize for Note {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl Serialize for Carriage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Carriage {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Carriage, D::Error> {
        let text = String::deserialize(deserializer)?;
        Carriage::parse(&text).ok_or_else(|| serde::de::Error::custom("no way to carry media"))
    }
}

impl Serialize for Matrix {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Carriage::Rtp(Some(*self)).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Matrix {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Matrix, D::Error> {
        let matrix = Carriage::deserialize(deserializer)?.matrix();
        matrix.ok_or_else(|| serde::de::Error::custom("no matrix"))
    }
}

impl<'de> Deserialize<'de> for Note {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Note, D::Error> {
        let text = String::deserialize(deserializer)?;
        Note::parse(&text).ok_or_else(|| serde::de::Error::custom("no note"))
    }
}

impl Serialize for UdpClient {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for UdpClient {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<UdpClient, D::Error> {
        let text = String::deserialize(deserializer)?;
        UdpClient::parse(text.as_bytes())
            .map_err(|fault| serde::de::Error::custom(fault.to_string()))
    }
}
