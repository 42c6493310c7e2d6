//! Looks at MPEG-TS as a decoder's clock does (ISO/IEC 13818-1): counters, tables, clock, times,
//! and how full the decoder's buffers become.

use std::collections::BTreeMap;

use super::transport::checksum;

/// What is wrong, and the figures.
#[derive(Debug, Default)]
pub struct Findings {
    pub errors: Vec<String>,
    pub packets: usize,
    /// The longest from one to the next, in seconds.
    pub clock_gap: f64,
    pub tables_gap: f64,
    /// The shortest from a unit's last byte to when it is decoded, in seconds.
    pub margin: f64,
    /// The most bytes that wait in a decoder's buffer, by PID.
    pub buffered: BTreeMap<u16, usize>,
    /// PES packets, by PID.
    pub units: BTreeMap<u16, Vec<Pes>>,
}

/// A PES packet.
#[derive(Clone, Debug)]
#[allow(dead_code, reason = "each test looks at what it is about")]
pub struct Pes {
    /// In ticks of 90 kHz, without wrap.
    pub decode: i64,
    pub present: i64,
    pub is_join: bool,
    /// Without its head.
    pub bytes: Vec<u8>,
    /// The numbers of the packets in which it begins and ends.
    pub packets: (usize, usize),
}

#[derive(Default)]
struct Pid {
    counter: Option<u8>,
    /// The bytes of the PES packet that is open, and where it began.
    open: Option<(Vec<u8>, usize, bool, usize)>,
    newest: i64,
}

/// Goes through all of it.
pub fn analyse(stream: &[u8]) -> Findings {
    let mut analysis = Analysis::default();
    analysis.found.margin = f64::MAX;
    if !stream.len().is_multiple_of(188) {
        analysis.error(0, "is not made of packets");
    }
    for (number, packet) in stream.chunks_exact(188).enumerate() {
        analysis.packet(number, packet);
    }
    analysis.finish()
}

#[derive(Default)]
struct Analysis {
    found: Findings,
    pids: BTreeMap<u16, Pid>,
    map_pid: Option<u16>,
    clock_pid: Option<u16>,
    map: Vec<u8>,
    /// Packet and time, in ticks of 27 MHz without wrap.
    clock: Vec<(usize, i64)>,
    tables: Vec<usize>,
}

impl Analysis {
    fn error(&mut self, number: usize, what: &str) {
        if self.found.errors.len() < 20 {
            self.found.errors.push(format!("packet {number}: {what}"));
        }
    }

    fn packet(&mut self, number: usize, packet: &[u8]) {
        self.found.packets += 1;
        let pid = u16::from_be_bytes([packet[1] & 0x1f, packet[2]]);
        let (starts, control, counter) = (packet[1] & 0x40 != 0, packet[3] >> 4, packet[3] & 15);
        if packet[0] != 0x47 || packet[1] & 0x80 != 0 || !matches!(control, 1..=3) {
            self.error(number, "has no head of a packet");
        }
        let field = usize::from(control & 2 != 0) * (1 + usize::from(packet[4]));
        let flags = if field > 1 { packet[5] } else { 0 };
        if control == 2 && field != 184 || control == 3 && field > 183 {
            self.error(number, "has an adaptation field of a wrong length");
        }
        let payload = &packet[(4 + field).min(188)..];
        let (before, carries) = (self.pids.entry(pid).or_default().counter, control & 1 != 0);
        let expected = before.map(|before| (before + u8::from(carries)) & 15);
        if expected.is_some_and(|expected| expected != counter) {
            self.error(
                number,
                &format!("PID {pid:#x}: counter {counter}, not {expected:?}"),
            );
        }
        self.pids.entry(pid).or_default().counter = Some(counter);
        if flags & 0x10 != 0 {
            self.take_clock(number, pid, &packet[6..12]);
        }
        let stuffing = 6 + if flags & 0x10 != 0 { 6 } else { 0 };
        if field > 2
            && packet[stuffing.min(4 + field)..4 + field]
                .iter()
                .any(|b| *b != 0xff)
        {
            self.error(number, "has stuffing that is none");
        }
        if !carries {
            return;
        }
        if pid == 0 || Some(pid) == self.map_pid {
            self.table(number, pid, payload);
        } else if starts {
            self.close(pid);
            let open = (payload.to_vec(), number, flags & 0x40 != 0, number);
            self.pids.entry(pid).or_default().open = Some(open);
        } else if let Some(open) = &mut self.pids.entry(pid).or_default().open {
            open.0.extend_from_slice(payload);
            open.3 = number;
        } else {
            self.error(number, "goes on with what has not begun");
        }
        let others = self.pids.iter().filter(|(other, _)| **other != pid);
        let is_woven = others.clone().any(|(_, pid)| {
            pid.open.as_ref().is_some_and(|(bytes, ..)| {
                let length = usize::from(u16::from_be_bytes([bytes[4], bytes[5]]));
                length != 0 && bytes.len() < length + 6
            })
        });
        if is_woven {
            self.error(number, "stands within a PES packet of another PID");
        }
    }

    fn take_clock(&mut self, number: usize, pid: u16, field: &[u8]) {
        if self.clock_pid.is_some_and(|clock| clock != pid) {
            self.error(number, "tells a clock that is not the program's");
        }
        let field = field
            .iter()
            .fold(0u64, |all, byte| all << 8 | u64::from(*byte));
        let (base, extension) = ((field >> 15) as i64, (field & 0x1ff) as i64);
        let time = base * 300 + extension;
        let before = self.clock.last().map(|(_, before)| *before);
        let time = unwrapped(time, before, (1 << 33) * 300);
        if let Some(before) = before {
            let gap = (time - before) as f64 / 27e6;
            self.found.clock_gap = self.found.clock_gap.max(gap);
            if !(0.0..=0.1).contains(&gap) {
                self.error(
                    number,
                    &format!("tells the clock {gap} s behind the one before"),
                );
            }
        }
        self.clock.push((number, time));
    }

    fn table(&mut self, number: usize, pid: u16, payload: &[u8]) {
        let section = &payload[1 + usize::from(payload[0])..];
        let length = 3 + usize::from(u16::from_be_bytes([section[1] & 15, section[2]]));
        let (body, sum) = section[..length].split_at(length - 4);
        if checksum(body) != sum {
            self.error(number, "has a table with a wrong checksum");
        }
        if pid == 0 {
            self.map_pid = Some(u16::from_be_bytes([body[10] & 0x1f, body[11]]));
            return;
        }
        self.clock_pid = Some(u16::from_be_bytes([body[8] & 0x1f, body[9]]));
        if self.map != body && !self.map.is_empty() && self.map[5] == body[5] {
            self.error(number, "has another map of the same version");
        }
        self.map = body.to_vec();
        self.tables.push(number);
    }

    fn close(&mut self, pid: u16) {
        let Some((bytes, first, is_join, last)) =
            self.pids.get_mut(&pid).and_then(|pid| pid.open.take())
        else {
            return;
        };
        let length = usize::from(u16::from_be_bytes([bytes[4], bytes[5]]));
        let head = 9 + usize::from(bytes[8]);
        if bytes[..3] != [0, 0, 1] || length != 0 && length + 6 != bytes.len() {
            self.error(first, "has a PES packet of another length");
        }
        let stamp = |at: usize| {
            let part = |byte: usize, mask: u8| i64::from(bytes[at + byte] & mask);
            part(0, 0x0e) << 29
                | part(1, 0xff) << 22
                | part(2, 0xfe) << 14
                | part(3, 0xff) << 7
                | part(4, 0xff) >> 1
        };
        let present = stamp(9);
        let decode = if bytes[7] & 0x40 != 0 {
            stamp(14)
        } else {
            present
        };
        let before = self.pids[&pid].newest;
        let clock = self.clock.last().map_or(0, |(_, time)| time / 300);
        let decode = unwrapped(decode, Some(clock), 1 << 33);
        let present = unwrapped(present, Some(decode), 1 << 33);
        if present < decode {
            self.error(first, "is shown before it is decoded");
        }
        if decode <= before {
            self.error(first, "is decoded before the one before");
        }
        self.pids.entry(pid).or_default().newest = decode;
        let pes = Pes {
            decode,
            present,
            is_join,
            bytes: bytes[head..].to_vec(),
            packets: (first, last),
        };
        self.found.units.entry(pid).or_default().push(pes);
    }

    /// When a packet's last byte has arrived, in seconds.
    fn arrival(&self, number: usize) -> f64 {
        let behind = self.clock.partition_point(|(packet, _)| *packet <= number);
        let (Some((from, begin)), Some((to, end))) = (
            behind
                .checked_sub(1)
                .and_then(|before| self.clock.get(before)),
            self.clock.get(behind),
        ) else {
            return self.clock[behind.saturating_sub(1)].1 as f64 / 27e6;
        };
        let part = (number + 1 - from) as f64 / (to - from) as f64;
        (*begin as f64 + part * (end - begin) as f64) / 27e6
    }

    fn finish(mut self) -> Findings {
        for pid in self.pids.keys().copied().collect::<Vec<_>>() {
            self.close(pid);
        }
        for pair in self.tables.windows(2) {
            let gap = self.arrival(pair[1]) - self.arrival(pair[0]);
            self.found.tables_gap = self.found.tables_gap.max(gap);
        }
        for (pid, units) in &self.found.units {
            let mut waiting = std::collections::VecDeque::new();
            let mut most = 0;
            for unit in units {
                let (begin, end) = (self.arrival(unit.packets.0), self.arrival(unit.packets.1));
                let decode = unit.decode as f64 / 90e3;
                self.found.margin = self.found.margin.min(decode - end);
                while waiting
                    .front()
                    .is_some_and(|(decoded, _)| *decoded <= begin)
                {
                    waiting.pop_front();
                }
                waiting.push_back((decode, unit.bytes.len()));
                most = most.max(waiting.iter().map(|(_, bytes)| bytes).sum());
            }
            self.found.buffered.insert(*pid, most);
        }
        self.found
    }
}

/// The nearest to the one before.
fn unwrapped(time: i64, before: Option<i64>, wrap: i64) -> i64 {
    let Some(before) = before else { return time };
    let turns = (before - time + wrap / 2).div_euclid(wrap);
    time + turns * wrap
}
