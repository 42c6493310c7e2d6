//! The hand-over of the table: each tuple with its serial.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Tokens;
use crate::gate::transport::{FecMatrix, Transport};

use crate::gate::session_id::SessionId;
use crate::gate::tuple::{ADDRESSES_MAX, Kind};
use crate::gate::udp_clients::UdpClient;
use crate::handover::{COUNT_MAX, HandoverError, Line, Writer, must};
use crate::time::UnixTime;

impl Tokens {
    /// Sends all tuples.
    pub fn hand_over(&self, writer: &mut Writer<'_>) {
        for (serial, tuple) in &self.in_order {
            writer.put("token", *serial, &(&tuple.session, &tuple.kind));
        }
        writer.put("tokens", 0, &(self.time, self.serial_next));
    }

    /// Receives a tuple.
    pub fn receive(&mut self, line: Line<'_>) -> Result<(), HandoverError> {
        let (session, kind): (SessionId, Kind) = line.read()?;
        let known = self.sessions.get(&session);
        let tokens_max = self.limits.tokens_max;
        let clients_max = self.limits.udp_clients_per_session_max;
        must(self.len() < tokens_max, || {
            format!("it has more tokens than --tokens={tokens_max} here; raise it")
        })?;
        let is_fit = match &kind {
            Kind::Http(_) => known.is_none_or(|known| known.http.is_none()),
            Kind::Rtp(rtp) => {
                must(
                    known.is_none_or(|known| known.rtp.len() < clients_max),
                    || {
                        format!(
                            "a session has more than --udp-clients={clients_max} here; raise it"
                        )
                    },
                )?;
                rtp.addresses.len() <= ADDRESSES_MAX
            }
        };
        let is_new = line.number <= COUNT_MAX && !self.in_order.contains_key(&line.number);
        must(is_fit && is_new, || {
            format!("token {}: it is there already, or malformed", line.number)
        })?;
        self.put(line.number, &session, kind);
        Ok(())
    }

    /// Receives the latest time, and the next serial.
    pub fn receive_end(&mut self, line: Line<'_>) -> Result<(), HandoverError> {
        let (time, serial_next): (UnixTime, u64) = line.read()?;
        self.set_time(time.min(UnixTime::MAX));
        self.serial_next = self.serial_next.max(serial_next.min(COUNT_MAX));
        Ok(())
    }
}

impl Serialize for Transport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Transport {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Transport, D::Error> {
        let text = String::deserialize(deserializer)?;
        Transport::parse(&text).ok_or_else(|| serde::de::Error::custom("no way to carry media"))
    }
}

impl Serialize for FecMatrix {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Transport::Rtp(Some(*self)).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for FecMatrix {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<FecMatrix, D::Error> {
        let matrix = Transport::deserialize(deserializer)?.matrix();
        matrix.ok_or_else(|| serde::de::Error::custom("no matrix"))
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
        UdpClient::parse(text.as_bytes()).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::gate::{Direction, Limits, Note, RtpTuple};
    use crate::handover::Reader;

    /// Returns a table with three tuples of `a`, as many clients as it may have, and room for one
    /// more tuple.
    fn told() -> Tokens {
        let mut tokens = Tokens::new(Limits {
            tokens_max: 4,
            udp_clients_per_session_max: 2,
        });
        for (serial, kind) in [(3, http()), (5, udp(1, 1)), (6, udp(2, ADDRESSES_MAX))] {
            receive(&mut tokens, "a", serial, kind).expect("it fits");
        }
        tokens.check();
        tokens
    }

    fn http() -> Kind {
        Kind::Http(Direction::Both.into())
    }

    fn udp(port: u16, addresses: usize) -> Kind {
        let client = UdpClient::parse(format!("name:{port}").as_bytes()).expect("a good entry");
        let address = |number: usize| SocketAddr::from(([192, 0, 2, number as u8], port));
        Kind::Rtp(RtpTuple {
            client,
            transport: Transport::Rtp(None),
            addresses: (0..addresses).map(address).collect(),
        })
    }

    fn receive(
        tokens: &mut Tokens,
        name: &str,
        serial: u64,
        kind: Kind,
    ) -> Result<(), HandoverError> {
        heard("token", serial, &(name, kind), |line| tokens.receive(line))
    }

    /// Receives one line.
    fn heard(
        name: &str,
        number: u64,
        value: &impl Serialize,
        take: impl FnMut(Line<'_>) -> Result<(), HandoverError>,
    ) -> Result<(), HandoverError> {
        let mut text = Vec::new();
        let mut out = |piece: &[u8]| text.extend_from_slice(piece);
        let mut writer = Writer::new(&mut out);
        assert!(writer.put(name, number, value));
        writer.finish();
        Reader::new(1 << 20).receive(&text, take)
    }

    #[test]
    fn what_is_told_has_the_limits_of_what_is_asked_for() {
        for (what, name, serial, kind) in [
            ("a second http tuple", "a", 7, http()),
            ("a third client", "a", 7, udp(3, 1)),
            (
                "more addresses than count",
                "b",
                7,
                udp(1, ADDRESSES_MAX + 1),
            ),
            ("a serial that is taken", "b", 5, http()),
            (
                "a serial that was never reached",
                "b",
                COUNT_MAX + 1,
                http(),
            ),
        ] {
            let mut tokens = told();
            assert!(receive(&mut tokens, name, serial, kind).is_err(), "{what}");
            assert_eq!(tokens.len(), 3);
        }
        for (name, serial, kind) in [
            ("b", 1, http()),
            ("b", COUNT_MAX, udp(1, ADDRESSES_MAX)),
            ("b", 4, udp(1, 0)),
        ] {
            let mut tokens = told();
            assert_eq!(receive(&mut tokens, name, serial, kind), Ok(()), "{serial}");
            tokens.check();
            let full = receive(&mut tokens, "c", 8, http());
            assert!(full.is_err(), "there are as many as may be");
        }
    }

    #[test]
    fn what_is_told_in_words_is_read_as_what_is_asked_for() {
        fn is_read<T: serde::de::DeserializeOwned>(text: &str) -> bool {
            serde_json::from_value::<T>(text.into()).is_ok()
        }
        type Case = (fn(&str) -> bool, &'static str, &'static str);
        let cases: [Case; 5] = [
            (is_read::<SessionId>, "a", "a\n"),
            (is_read::<Transport>, "udp", "tcp"),
            (is_read::<FecMatrix>, "5x4", "udp"),
            (is_read::<Note>, "studio", "a\nb"),
            (is_read::<UdpClient>, "name:5004", "name"),
        ];
        for (is_read, can_be, cannot) in cases {
            assert!(is_read(can_be) && !is_read(cannot), "{can_be}, {cannot}");
        }
    }

    #[test]
    fn time_and_serials_go_on_where_they_were() {
        let receive_end = |tokens: &mut Tokens, time: u64, next: u64| {
            let stamp = UnixTime { unix_seconds: time };
            heard("tokens", 0, &(stamp, next), |line| tokens.receive_end(line))
        };
        let mut tokens = told();
        assert_eq!(receive_end(&mut tokens, 77, 40), Ok(()));
        assert_eq!(tokens.time(), UnixTime { unix_seconds: 77 });
        let session = SessionId::parse(b"b").expect("a good sessionid");
        tokens
            .add(&session, Some(Direction::In.into()), Vec::new())
            .expect("there is room");
        let serials: Vec<u64> = tokens.of(&session).map(|tuple| tuple.serial).collect();
        assert_eq!(serials, [40]);
        // The larger value of both counts, and a serial that leaves no room for others is refused.
        assert_eq!(receive_end(&mut tokens, 5, 2), Ok(()));
        assert_eq!((tokens.time().unix_seconds, tokens.serial_next), (77, 41));
        assert_eq!(receive_end(&mut tokens, u64::MAX, u64::MAX), Ok(()));
        assert_eq!(
            (tokens.time(), tokens.serial_next),
            (UnixTime::MAX, COUNT_MAX)
        );
    }
}
