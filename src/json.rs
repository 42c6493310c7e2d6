//! A list of objects in JSON (RFC 8259), checked as it comes.
//!
//! What another relay tells is passed on as it came, so it must be what it says: one array, each
//! of whose rows is an object. [`Rows`] looks at each byte once and keeps what stands between the
//! brackets in blocks, so nothing is left to do at the end, however long the list was. What a name
//! or a number means is nothing to it.

use std::collections::VecDeque;

/// Reads a list, and keeps its rows.
#[derive(Default)]
pub struct Rows {
    reader: Reader,
    /// Each row with the comma before it, the first one too.
    blocks: VecDeque<Vec<u8>>,
}

/// What is kept lies in blocks of so many bytes, the last one in fewer.
pub const BLOCK_BYTES: usize = 64 * 1024;

/// Arrays and objects within each other: as many as there are bits that tell which they are.
const DEPTH_MAX: u32 = u64::BITS;

impl Rows {
    /// Takes the next piece of the list. `false`: it is none.
    #[must_use]
    pub fn read(&mut self, piece: &[u8]) -> bool {
        let mut kept = 0..0;
        for (at, &byte) in piece.iter().enumerate() {
            let was_within = self.reader.is_within_rows();
            if self.reader.step(byte).is_none() {
                return false;
            }
            if !was_within && self.reader.is_within_rows() {
                kept.start = at;
                self.keep(b",");
            }
            if self.reader.is_within_rows() {
                kept.end = at + 1;
            }
        }
        self.keep(&piece[kept]);
        true
    }

    /// Keeps more, in no more memory than it will take.
    fn keep(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let is_full = |block: &Vec<u8>| block.len() == BLOCK_BYTES;
            if self.blocks.back().is_none_or(is_full) {
                self.blocks.push_back(Vec::new());
            }
            let Some(block) = self.blocks.back_mut() else {
                return;
            };
            let (now, later) = bytes.split_at(bytes.len().min(BLOCK_BYTES - block.len()));
            let needed = block.len() + now.len();
            if needed > block.capacity() {
                let room = needed.max(2 * block.capacity()).min(BLOCK_BYTES);
                block.reserve_exact(room - block.len());
            }
            block.extend_from_slice(now);
            bytes = later;
        }
    }

    /// The list is over: its rows, if it was one, each with a comma before it.
    pub fn finish(mut self) -> Option<VecDeque<Vec<u8>>> {
        if let Some(last) = self.blocks.back_mut() {
            last.shrink_to_fit();
        }
        self.blocks.shrink_to_fit();
        (self.reader.at == At::End).then_some(self.blocks)
    }

    /// Bytes that are allocated for it.
    pub fn held_bytes(&self) -> usize {
        blocks_bytes(&self.blocks)
    }
}

/// Bytes that are allocated for what a list has become.
pub fn blocks_bytes(blocks: &VecDeque<Vec<u8>>) -> usize {
    let bytes: usize = blocks.iter().map(Vec::capacity).sum();
    bytes + blocks.capacity() * size_of::<Vec<u8>>()
}

/// Where in the grammar a list is.
#[derive(Default)]
struct Reader {
    at: At,
    /// Open arrays and objects, the list itself being the first.
    depth: u32,
    /// Which of them are objects, the innermost being the lowest bit.
    objects: u64,
    has_rows: bool,
}

/// What comes next. White space may stand before it, but not within a string, a number or a word.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum At {
    /// The list's bracket.
    #[default]
    Begin,
    /// An array's first value, or its end.
    FirstValue,
    Value,
    /// An object's first name, or its end.
    FirstName,
    Name,
    Colon,
    /// A comma, or the end of what the value stands in.
    AfterValue,
    Text {
        is_name: bool,
        within: Text,
    },
    Number(Number),
    /// The rest of `true`, `false` or `null`.
    Word(&'static [u8]),
    /// Nothing.
    End,
}

/// Within a string.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Text {
    Character,
    Escaped,
    /// So many hexadecimal digits.
    Hexadecimal(u8),
    /// So many more bytes of a character in UTF-8, the next of which is in this range.
    Tail {
        bytes: u8,
        low: u8,
        high: u8,
    },
}

/// How far a number has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Number {
    Minus,
    Zero,
    Whole,
    Point,
    Fraction,
    E,
    Sign,
    Exponent,
}

impl Reader {
    /// Whether the first row has begun, and the list has not ended.
    fn is_within_rows(&self) -> bool {
        self.has_rows && self.depth > 0
    }

    /// Takes one byte. `None`: it may not stand here.
    fn step(&mut self, byte: u8) -> Option<()> {
        match self.at {
            At::Text { is_name, within } => {
                self.at = match within.step(byte)? {
                    Some(within) => At::Text { is_name, within },
                    None if is_name => At::Colon,
                    None => At::AfterValue,
                };
                return Some(());
            }
            At::Number(number) => match number.step(byte) {
                Some(number) => {
                    self.at = At::Number(number);
                    return Some(());
                }
                None if number.may_end() => self.at = At::AfterValue,
                None => return None,
            },
            At::Word(rest) => {
                let (expected, rest) = rest.split_first()?;
                self.at = match rest {
                    [] => At::AfterValue,
                    rest => At::Word(rest),
                };
                return (byte == *expected).then_some(());
            }
            _ => {}
        }
        if matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
            return Some(());
        }
        match (self.at, byte) {
            (At::Begin, b'[') => self.open(false, At::FirstValue),
            (At::FirstValue, b']') => self.close(false),
            (At::FirstName, b'}') => self.close(true),
            (At::FirstValue | At::Value, byte) => self.value(byte),
            (At::FirstName | At::Name, b'"') => {
                self.at = text(true);
                Some(())
            }
            (At::Colon, b':') => {
                self.at = At::Value;
                Some(())
            }
            (At::AfterValue, b',') => {
                self.at = match self.is_in_object() {
                    true => At::Name,
                    false => At::Value,
                };
                Some(())
            }
            (At::AfterValue, b']') => self.close(false),
            (At::AfterValue, b'}') => self.close(true),
            _ => None,
        }
    }

    /// The first byte of a value.
    fn value(&mut self, byte: u8) -> Option<()> {
        if self.depth == 1 && byte != b'{' {
            return None;
        }
        self.at = match byte {
            b'{' => {
                self.has_rows = true;
                return self.open(true, At::FirstName);
            }
            b'[' => return self.open(false, At::FirstValue),
            b'"' => text(false),
            b'-' => At::Number(Number::Minus),
            b'0' => At::Number(Number::Zero),
            b'1'..=b'9' => At::Number(Number::Whole),
            b't' => At::Word(b"rue"),
            b'f' => At::Word(b"alse"),
            b'n' => At::Word(b"ull"),
            _ => return None,
        };
        Some(())
    }

    fn is_in_object(&self) -> bool {
        self.objects & 1 == 1
    }

    fn open(&mut self, is_object: bool, next: At) -> Option<()> {
        if self.depth == DEPTH_MAX {
            return None;
        }
        self.depth += 1;
        self.objects = self.objects << 1 | u64::from(is_object);
        self.at = next;
        Some(())
    }

    fn close(&mut self, is_object: bool) -> Option<()> {
        if self.is_in_object() != is_object {
            return None;
        }
        self.depth -= 1;
        self.objects >>= 1;
        self.at = match self.depth {
            0 => At::End,
            _ => At::AfterValue,
        };
        Some(())
    }
}

fn text(is_name: bool) -> At {
    At::Text {
        is_name,
        within: Text::Character,
    }
}

impl Text {
    /// What comes next within the string; the inner `None`: it is over.
    fn step(self, byte: u8) -> Option<Option<Text>> {
        let tail = |bytes, low, high| Text::Tail { bytes, low, high };
        let next = match (self, byte) {
            (Text::Character, b'"') => return Some(None),
            (Text::Character, b'\\') => Text::Escaped,
            (Text::Character, b' '..=0x7f) => Text::Character,
            // RFC 3629 section 4: no character in more bytes than it needs, and no surrogate.
            (Text::Character, 0xc2..=0xdf) => tail(1, 0x80, 0xbf),
            (Text::Character, 0xe0) => tail(2, 0xa0, 0xbf),
            (Text::Character, 0xed) => tail(2, 0x80, 0x9f),
            (Text::Character, 0xe1..=0xef) => tail(2, 0x80, 0xbf),
            (Text::Character, 0xf0) => tail(3, 0x90, 0xbf),
            (Text::Character, 0xf1..=0xf3) => tail(3, 0x80, 0xbf),
            (Text::Character, 0xf4) => tail(3, 0x80, 0x8f),
            (Text::Escaped, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                Text::Character
            }
            (Text::Escaped, b'u') => Text::Hexadecimal(4),
            (Text::Hexadecimal(digits), byte) if byte.is_ascii_hexdigit() => match digits {
                1 => Text::Character,
                digits => Text::Hexadecimal(digits - 1),
            },
            (Text::Tail { bytes, low, high }, byte) if (low..=high).contains(&byte) => {
                match bytes {
                    1 => Text::Character,
                    bytes => tail(bytes - 1, 0x80, 0xbf),
                }
            }
            _ => return None,
        };
        Some(Some(next))
    }
}

impl Number {
    /// How far it is with this byte, if that can be one of it.
    fn step(self, byte: u8) -> Option<Number> {
        match (self, byte) {
            (Number::Minus, b'0') => Some(Number::Zero),
            (Number::Minus, b'1'..=b'9') | (Number::Whole, b'0'..=b'9') => Some(Number::Whole),
            (Number::Zero | Number::Whole, b'.') => Some(Number::Point),
            (Number::Point | Number::Fraction, b'0'..=b'9') => Some(Number::Fraction),
            (Number::Zero | Number::Whole | Number::Fraction, b'e' | b'E') => Some(Number::E),
            (Number::E, b'+' | b'-') => Some(Number::Sign),
            (Number::E | Number::Sign | Number::Exponent, b'0'..=b'9') => Some(Number::Exponent),
            _ => None,
        }
    }

    fn may_end(self) -> bool {
        match self {
            Number::Zero | Number::Whole | Number::Fraction | Number::Exponent => true,
            Number::Minus | Number::Point | Number::E | Number::Sign => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    use serde::de::IgnoredAny;

    fn rows_in(pieces: &[&[u8]]) -> Option<Vec<u8>> {
        let mut rows = Rows::default();
        if !pieces.iter().all(|piece| rows.read(piece)) {
            return None;
        }
        Some(rows.finish()?.into_iter().flatten().collect())
    }

    /// What is taken as one list, wherever it is cut.
    fn rows(list: &[u8]) -> Option<Vec<u8>> {
        let whole = rows_in(&[list]);
        for cut in 0..list.len() {
            let (first, second) = list.split_at(cut);
            assert_eq!(rows_in(&[first, second]), whole, "{list:?} cut at {cut}");
        }
        let bytes: Vec<&[u8]> = list.chunks(1).collect();
        assert_eq!(rows_in(&bytes), whole, "{list:?} in bytes");
        whole
    }

    #[test]
    fn rows_are_taken_out_of_lists_and_nothing_else() {
        let taken = |list: &str| rows(list.as_bytes());
        assert_eq!(taken("[]"), Some(b"".to_vec()));
        assert_eq!(taken(" [ ]\n"), Some(b"".to_vec()));
        for row in [
            "{}",
            "{ }",
            "{\"a\":[1]},{}",
            "{\"a\":[{}, [ ] , -0.5e+10,true]}, {\"\\u00e9\\n\" : null}",
            "{\"a\":[true,false,null,\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u09aF\"]}",
            "{\"a\":[0,-0,7,-7,10,-120,0.5,-1.25,12.0,0e1,1E5,1e+05,-12.50e-10,1234567890]}",
            "{\"\u{3ffff}\u{40000}\u{80000}\u{fffff}\u{100000}\":1}",
            "{\"\u{7f}\u{80}\u{7ff}\u{800}\u{d7ff}\u{e000}\u{ffff}\u{10000}\u{10ffff}\":\"\"}",
        ] {
            assert_eq!(taken(&format!("[{row}]")), Some(format!(",{row}").into()));
        }
        for wrong in [
            "",
            "{}",
            "[",
            "[{},]",
            "[1]",
            "[[]]",
            "[{}][{}]",
            "null",
            "\"[]\"",
            "[{]}",
            "[{},{}",
            "[{\"a\"}]",
            "[{\"a\":}]",
            "[{\"a\":1,}]",
            "[{a:1}]",
            "[{\"a\":01}]",
            "[{\"a\":tru}]",
            "[{\"a\":\"\n\"}]",
            "[{\"a\":\"\\x\"}]",
            "[{\"a\":\"\\u12g4\"}]",
            "[{}]x",
        ] {
            assert_eq!(taken(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_no_number_and_no_word_is_no_value() {
        for value in [
            "-", "--1", "-a", "+1", ".5", "00", "01", "-01", "1.", "1.e5", "1..2", "1.2.3", "1e",
            "1e+", "1e+-1", "1ee1", "1e1.5", "0x1", "1a", "tru", "truE", "fals", "falsey", "nul",
            "nulll", "True", "x",
        ] {
            assert_eq!(
                rows(format!("[{{\"a\":{value}}}]").as_bytes()),
                None,
                "{value}"
            );
        }
    }

    #[test]
    fn strings_are_utf8() {
        for text in [
            &b"\x80"[..],
            b"\xc0\x80",
            b"\xc1\xbf",
            b"\xe0\x9f\xbf",
            b"\xed\xa0\x80",
            b"\xff",
            b"\xf0\x8f\xbf\xbf",
            b"\xf4\x90\x80\x80",
            b"\xf5\x80\x80\x80",
            b"\xc3",
            b"\xe2\x82",
        ] {
            let list = [b"[{\"", text, b"\":1}]"].concat();
            assert_eq!(rows(&list), None, "{text:?}");
        }
    }

    /// As another parser has it, of all that can be made of these.
    #[test]
    fn a_list_is_what_others_take_for_one() {
        let alphabet = b"{}[],:\"0-.e \\";
        let mut lists = 0;
        for number in 0..alphabet.len().pow(5) {
            let places = (0..5).map(|place| number / alphabet.len().pow(place) % alphabet.len());
            let within: Vec<u8> = places.map(|place| alphabet[place]).collect();
            for (before, behind) in [("[", "]"), ("[{\"\":", "}]")] {
                let list = [before.as_bytes(), &within, behind.as_bytes()].concat();
                let other: Result<Vec<BTreeMap<String, IgnoredAny>>, _> =
                    serde_json::from_slice(&list);
                let shown = String::from_utf8_lossy(&list);
                assert_eq!(rows_in(&[&list]).is_some(), other.is_ok(), "{shown}");
                lists += usize::from(other.is_ok());
            }
        }
        assert!(lists > 500, "{lists}");
    }

    #[test]
    fn what_lies_too_deep_is_no_list() {
        let nested = |depth: usize| {
            let arrays = "[".repeat(depth) + &"]".repeat(depth);
            rows(format!("[{{\"a\":{arrays}}}]").as_bytes())
        };
        assert!(nested(62).is_some());
        assert_eq!(nested(63), None);
        assert_eq!(nested(2000), None);
    }

    /// Whatever is read holds what was kept of it, but for a block.
    #[test]
    fn what_is_kept_lies_in_blocks() {
        let mut reader = Rows::default();
        assert!(reader.read(b"[{}"));
        assert!(reader.held_bytes() < 1000);
        let mut read: usize = 3;
        while read < 1_000_000 {
            assert!(reader.read(&b",{}".repeat(700)));
            read += 2100;
            let blocks = read.div_ceil(BLOCK_BYTES);
            assert!(reader.held_bytes() <= blocks * (BLOCK_BYTES + 64) + 256);
        }
        assert!(reader.read(b"]"));
        let blocks = reader.finish().expect("a list");
        let kept: usize = blocks.iter().map(Vec::len).sum();
        assert_eq!(kept, read);
        assert_eq!(
            blocks_bytes(&blocks),
            kept + blocks.len() * size_of::<Vec<u8>>()
        );
    }

    /// A block has room for less than twice what is in it, and never for more than a block; and it
    /// grows seldom, however small the pieces are.
    #[test]
    fn blocks_have_room_for_little_more_than_they_hold() {
        let list = b",{}".repeat(BLOCK_BYTES);
        let mut reader = Rows::default();
        assert!(reader.read(b"["));
        let (mut room, mut growths) = (0, 0);
        for (at, byte) in list.iter().skip(1).enumerate() {
            assert!(reader.read(&[*byte]));
            // With the comma before the first row.
            let kept = at + 2;
            let (whole, rest) = (kept / BLOCK_BYTES, kept % BLOCK_BYTES);
            let blocks: usize = reader.blocks.iter().map(Vec::capacity).sum();
            let of_rest = blocks - whole * BLOCK_BYTES;
            assert!(of_rest >= rest && of_rest <= BLOCK_BYTES, "{kept}");
            assert!(rest == 0 || of_rest < 2 * rest, "{kept}: {of_rest}");
            growths += usize::from(blocks != room);
            room = blocks;
        }
        assert!(growths <= 3 * 18, "{growths}");
        let lists = reader.held_bytes() - room;
        assert!((3 * size_of::<Vec<u8>>()..300).contains(&lists), "{lists}");
    }
}
