//! The form in which a UDP client gets or sends a stream: RTP, with or without FEC, or MPEG-TS
//! without RTP.

use std::fmt::{self, Display, Formatter};

/// The layer between UDP and the stream. Prints as text that parses to the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// RTP, with FEC packets if there is a matrix.
    Rtp(Option<FecMatrix>),
    /// None: datagrams contain MPEG-TS packets.
    Bare,
}

/// Number of RTP packets that are protected together (SMPTE 2022-1). Prints as `LxD`, which parses
/// to the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FecMatrix {
    columns: u8,
    rows: u8,
}

/// Bounds of L and D, and of their product.
const SIDE_MIN: u8 = 4;
const SIDE_MAX: u8 = 20;
const PRODUCT_MAX: u16 = 100;

impl Transport {
    /// Returns the matrix of FEC packets, if there is one.
    pub fn matrix(self) -> Option<FecMatrix> {
        match self {
            Transport::Rtp(matrix) => matrix,
            Transport::Bare => None,
        }
    }

    /// Returns the ports that it uses, beginning with that of the stream. `None` if a port would
    /// exceed 65535.
    pub fn ports(self, port: u16) -> Option<impl Iterator<Item = u16>> {
        let above = match self.matrix() {
            Some(_) => &[0, FecMatrix::COLUMNS_ABOVE, FecMatrix::ROWS_ABOVE][..],
            None => &[0],
        };
        port.checked_add(*above.last()?)?;
        Some(above.iter().map(move |above| port + above))
    }

    /// Parses the text of a journal; `None` for other text.
    pub fn parse(text: &str) -> Option<Transport> {
        match text {
            "rtp" => Some(Transport::Rtp(None)),
            "udp" => Some(Transport::Bare),
            matrix => FecMatrix::parse(matrix).map(|matrix| Transport::Rtp(Some(matrix))),
        }
    }
}

impl Display for Transport {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Transport::Rtp(None) => formatter.write_str("rtp"),
            Transport::Rtp(Some(matrix)) => Display::fmt(matrix, formatter),
            Transport::Bare => formatter.write_str("udp"),
        }
    }
}

impl FecMatrix {
    /// Offset from the stream's port to that of column FEC packets (SMPTE 2022-1 section 8).
    pub const COLUMNS_ABOVE: u16 = 2;
    /// Offset from the stream's port to that of row FEC packets.
    pub const ROWS_ABOVE: u16 = 4;

    /// Parses `LxD`, such as `5x10`: L and D from 4 to 20, at most 100 packets.
    pub fn parse(text: &str) -> Option<FecMatrix> {
        let (columns, rows) = text.split_once('x')?;
        let side = |text: &str| {
            let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
            let number = if is_plain { text.parse().ok() } else { None };
            number.filter(|number| (SIDE_MIN..=SIDE_MAX).contains(number))
        };
        let (columns, rows) = (side(columns)?, side(rows)?);
        let is_small = u16::from(columns) * u16::from(rows) <= PRODUCT_MAX;
        is_small.then_some(FecMatrix { columns, rows })
    }

    /// Returns L: packets in a row. A burst loss of this length can be repaired.
    pub fn columns(self) -> u8 {
        self.columns
    }

    /// Returns D: packets in a column.
    pub fn rows(self) -> u8 {
        self.rows
    }
}

impl Display for FecMatrix {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}x{}", self.columns, self.rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fec_packets_go_to_ports_above_the_streams_port() {
        let ports = |text: &str, port| {
            let transport = Transport::parse(text).expect("a good one");
            Some(transport.ports(port)?.collect::<Vec<_>>())
        };
        for alone in ["rtp", "udp"] {
            assert_eq!(ports(alone, 5004), Some(vec![5004]));
            assert_eq!(ports(alone, u16::MAX), Some(vec![u16::MAX]));
        }
        assert_eq!(ports("5x10", 5004), Some(vec![5004, 5006, 5008]));
        assert_eq!(ports("5x10", 65531), Some(vec![65531, 65533, 65535]));
        assert_eq!(ports("5x10", 65532), None);
    }

    #[test]
    fn parsed_text_prints_unchanged() {
        for good in ["rtp", "udp", "4x4", "5x20", "20x5", "10x10", "4x20"] {
            let read = Transport::parse(good).map(|transport| transport.to_string());
            assert_eq!(read.as_deref(), Some(good));
        }
        for bad in [
            "", "x", "5", "3x5", "5x3", "21x4", "4x21", "11x10", "05x5", "5x+5", "5x5x5", "RTP",
        ] {
            assert_eq!(Transport::parse(bad), None, "{bad}");
        }
    }
}
