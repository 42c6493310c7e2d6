//! AMF0, as far as commands need it (Adobe's Action Message Format, AMF 0).
//!
//! Reading takes strings and numbers, and skips all other values. It builds nothing, allocates
//! nothing, and does not recurse: [`DEPTH_MAX`] bounds the nesting. Counts in arrays are not
//! believed.

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
const DEPTH_MAX: usize = 8;

/// Values that are read one after the other. `None` from a method: the next value is of another
/// type, or is cut off.
pub struct Values<'a>(pub &'a [u8]);

/// What an open object or array has still to come.
#[derive(Clone, Copy)]
enum Open {
    /// Names with values, up to an end mark.
    Object,
    /// This number of values.
    Array(u32),
}

impl<'a> Values<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        Some(*self.bytes(1)?.first()?)
    }

    fn short_text(&mut self) -> Option<&'a [u8]> {
        let length = self.bytes(2)?.try_into().ok()?;
        self.bytes(usize::from(u16::from_be_bytes(length)))
    }

    fn length(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.bytes(4)?.try_into().ok()?))
    }

    /// Takes a string.
    pub fn string(&mut self) -> Option<&'a [u8]> {
        match self.byte()? {
            STRING => self.short_text(),
            LONG_STRING => {
                let length = self.length()?;
                self.bytes(length as usize)
            }
            _ => None,
        }
    }

    /// Takes a number.
    pub fn number(&mut self) -> Option<f64> {
        match self.byte()? {
            NUMBER => Some(f64::from_be_bytes(self.bytes(8)?.try_into().ok()?)),
            _ => None,
        }
    }

    /// Takes an object, and calls `take` with each name. `take` takes the value.
    pub fn object(
        &mut self,
        mut take: impl FnMut(&'a [u8], &mut Values<'a>) -> Option<()>,
    ) -> Option<()> {
        match self.byte()? {
            OBJECT => {}
            ECMA_ARRAY => drop(self.bytes(4)?),
            _ => return None,
        }
        while let Some(name) = self.name()? {
            take(name, self)?;
        }
        Some(())
    }

    /// Takes the next name of an object, or the object's end.
    fn name(&mut self) -> Option<Option<&'a [u8]>> {
        let name = self.short_text()?;
        if name.is_empty() && self.0.first() == Some(&OBJECT_END) {
            self.bytes(1)?;
            return Some(None);
        }
        Some(Some(name))
    }

    /// Takes any value.
    pub fn skip(&mut self) -> Option<()> {
        let mut open = [Open::Object; DEPTH_MAX];
        let mut depth = 0;
        loop {
            let opened = match self.byte()? {
                NUMBER => self.bytes(8).map(|_| None)?,
                BOOLEAN => self.bytes(1).map(|_| None)?,
                STRING => self.short_text().map(|_| None)?,
                NULL | UNDEFINED => None,
                DATE => self.bytes(10).map(|_| None)?,
                LONG_STRING => {
                    let length = self.length()?;
                    self.bytes(length as usize).map(|_| None)?
                }
                OBJECT => Some(Open::Object),
                ECMA_ARRAY => self.bytes(4).map(|_| Some(Open::Object))?,
                STRICT_ARRAY => Some(Open::Array(self.length()?)),
                _ => return None,
            };
            if let Some(opened) = opened {
                *open.get_mut(depth)? = opened;
                depth += 1;
            }
            // The next value is one of the innermost object or array that has not ended.
            loop {
                let Some(innermost) = depth.checked_sub(1).and_then(|it| open.get_mut(it)) else {
                    return Some(());
                };
                match innermost {
                    Open::Array(0) => depth -= 1,
                    Open::Array(left) => {
                        *left -= 1;
                        break;
                    }
                    Open::Object if self.name()?.is_none() => depth -= 1,
                    Open::Object => break,
                }
            }
        }
    }
}

/// Appends a string of at most 65,535 bytes. The rest of a longer one is left out.
pub fn push_string(out: &mut Vec<u8>, text: &str) {
    out.push(STRING);
    push_text(out, text);
}

fn push_text(out: &mut Vec<u8>, text: &str) {
    let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend(text.bytes().take(usize::from(length)));
}

/// Appends a number.
pub fn push_number(out: &mut Vec<u8>, number: f64) {
    out.push(NUMBER);
    out.extend_from_slice(&number.to_be_bytes());
}

/// Appends null.
pub fn push_null(out: &mut Vec<u8>) {
    out.push(NULL);
}

/// Appends undefined.
pub fn push_undefined(out: &mut Vec<u8>) {
    out.push(UNDEFINED);
}

/// Appends an object with these strings and this number.
pub fn push_object(out: &mut Vec<u8>, strings: &[(&str, &str)], number: Option<(&str, f64)>) {
    out.push(OBJECT);
    for (name, text) in strings {
        push_text(out, name);
        push_string(out, text);
    }
    if let Some((name, value)) = number {
        push_text(out, name);
        push_number(out, value);
    }
    out.extend_from_slice(&[0, 0, OBJECT_END]);
}
