//! AMF0, as far as commands need it (Adobe's Action Message Format, AMF 0).
//!
//! Reading takes strings and numbers, and skips all other values. It builds nothing and allocates
//! nothing. [`DEPTH_MAX`] bounds the nesting. Counts in arrays are not believed.

use super::chunk::big_endian;

const NUMBER: u8 = 0;
const BOOLEAN: u8 = 1;
const STRING: u8 = 2;
const OBJECT: u8 = 3;
const NULL: u8 = 5;
const UNDEFINED: u8 = 6;
const ECMA_ARRAY: u8 = 8;
const OBJECT_END: u8 = 9;
const STRICT_ARRAY: u8 = 10;
const DATE: u8 = 11;
const LONG_STRING: u8 = 12;

/// Objects and arrays that may be within each other.
pub const DEPTH_MAX: usize = 8;

/// Values that are read one after the other. `None` from a method: the next value is of another
/// type, or is cut off.
pub struct Values<'a>(pub &'a [u8]);

impl<'a> Values<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// Takes bytes after their length, which has this number of bytes.
    fn text(&mut self, length_bytes: usize) -> Option<&'a [u8]> {
        let length = big_endian(self.bytes(length_bytes)?);
        self.bytes(length as usize)
    }

    /// Takes a string.
    pub fn string(&mut self) -> Option<&'a [u8]> {
        match self.bytes(1)? {
            [STRING] => self.text(2),
            [LONG_STRING] => self.text(4),
            _ => None,
        }
    }

    /// Takes a number.
    pub fn number(&mut self) -> Option<f64> {
        match self.bytes(9)? {
            [NUMBER, number @ ..] => Some(f64::from_be_bytes(number.try_into().ok()?)),
            _ => None,
        }
    }

    /// Takes an object, and calls `take` with each name. `take` takes the value.
    pub fn object(
        &mut self,
        mut take: impl FnMut(&'a [u8], &mut Values<'a>) -> Option<()>,
    ) -> Option<()> {
        match self.bytes(1)? {
            [OBJECT] => {}
            // The number of its members comes first.
            [ECMA_ARRAY] => drop(self.bytes(4)?),
            _ => return None,
        }
        loop {
            let name = self.text(2)?;
            if name.is_empty() && self.0.first() == Some(&OBJECT_END) {
                return self.bytes(1).map(drop);
            }
            take(name, self)?;
        }
    }

    /// Takes any value. `depth`: number of objects and arrays that may be within each other.
    pub fn skip(&mut self, depth: usize) -> Option<()> {
        match *self.0.first()? {
            NUMBER => self.bytes(9).map(drop),
            BOOLEAN => self.bytes(2).map(drop),
            NULL | UNDEFINED => self.bytes(1).map(drop),
            DATE => self.bytes(11).map(drop),
            STRING | LONG_STRING => self.string().map(drop),
            OBJECT | ECMA_ARRAY => {
                let depth = depth.checked_sub(1)?;
                self.object(|_, values| values.skip(depth))
            }
            STRICT_ARRAY => {
                let depth = depth.checked_sub(1)?;
                let count = big_endian(self.bytes(5)?.get(1..)?);
                (0..count).try_for_each(|_| self.skip(depth))
            }
            _ => None,
        }
    }
}

/// A value that is written.
pub enum Value<'a> {
    Number(f64),
    /// At most 65,535 bytes. The rest of a longer text is left out.
    Text(&'a str),
    Null,
    Undefined,
    Object(&'a [(&'a str, Value<'a>)]),
}

impl Value<'_> {
    /// Appends the value.
    pub fn push(&self, out: &mut Vec<u8>) {
        match self {
            Value::Number(number) => {
                out.push(NUMBER);
                out.extend_from_slice(&number.to_be_bytes());
            }
            Value::Text(text) => {
                out.push(STRING);
                push_text(text, out);
            }
            Value::Null => out.push(NULL),
            Value::Undefined => out.push(UNDEFINED),
            Value::Object(members) => {
                out.push(OBJECT);
                for (name, value) in *members {
                    push_text(name, out);
                    value.push(out);
                }
                out.extend_from_slice(&[0, 0, OBJECT_END]);
            }
        }
    }
}

fn push_text(text: &str, out: &mut Vec<u8>) {
    let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend(text.bytes().take(usize::from(length)));
}
