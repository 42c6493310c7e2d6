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
    /// The most bytes that wait in a decoder's buffer, by PID: of pictures until they are decoded,
    /// of sound in ADTS until each frame is.
    pub buffered: BTreeMap<u16, usize>,
    /// The most bytes in the transport buffer in front of it (section 2.4.2.3), of 512.
    pub transport: BTreeMap<u16, f64>,
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
    /// Length of the packet's head.
    pub head: usize,
    /// Bytes after the head.
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
    /// The numbers of its packets, with how much each carries.
    packets: Vec<(usize, usize)>,
    /// Bits a second that leave its transport buffer, once that is known.
    bits: Option<f64>,
}

/// Bits a second out of the transport buffer: of sound, of more than two channels of AAC,
const SOUND_BITS: f64 = 2e6;
const MANY_CHANNELS_BITS: f64 = 5_529_600.0;

/// of H.264 of a profile and level, as NAL units (ITU-T H.264 table A-1).
fn h264_bits(profile: u8, level: u8) -> f64 {
    let levels = [10, 11, 12, 13, 20, 21, 22, 30, 31, 32, 40, 41, 42, 50];
    let kilobits = [
        64, 192, 384, 768, 2_000, 4_000, 4_000, 10_000, 14_000, 20_000, 20_000, 50_000, 50_000,
        135_000, 240_000,
    ];
    let place = levels.iter().position(|known| *known >= level);
    let bits = f64::from(kilobits[place.unwrap_or(levels.len())]) * 1e3;
    bits * if profile >= 100 { 1.5 } else { 1.2 }
}

/// Frames of ADTS: how long each is, and when it begins after the first, in ticks of 90 kHz.
fn adts(bytes: &[u8]) -> Option<Vec<(usize, i64)>> {
    const RATES: [i64; 13] = [
        96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025,
        8_000, 7_350,
    ];
    let (mut rest, mut frames) = (bytes, Vec::new());
    while let [0xff, 0xf0 | 0xf1, rate, a, b, c, _, ..] = rest {
        let rate = RATES.get(usize::from(rate >> 2 & 15))?;
        let length = usize::from(a & 3) << 11 | usize::from(*b) << 3 | usize::from(c >> 5);
        frames.push((length, frames.len() as i64 * 1024 * 90_000 / rate));
        rest = rest.get(length..)?;
    }
    (rest.is_empty() && !frames.is_empty()).then_some(frames)
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
        let of_pid = self.pids.entry(pid).or_default();
        of_pid.counter = Some(counter);
        of_pid
            .packets
            .push((number, payload.len() * usize::from(carries)));
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
        let of_pid = self.pids.entry(pid).or_default();
        of_pid.newest = decode;
        let body = &bytes[head..];
        let set = body
            .windows(8)
            .find(|at| at[..3] == [0, 0, 1] && at[3] & 0x1f == 7);
        let bits = match (bytes[3] & 0xf0, body) {
            (0xe0, _) => set.map(|set| h264_bits(set[4], set[6])),
            (_, [0xff, 0xf0 | 0xf1, a, b, ..]) if (a & 1) << 2 | b >> 6 > 2 => {
                Some(MANY_CHANNELS_BITS)
            }
            (_, _) => Some(SOUND_BITS),
        };
        of_pid.bits = of_pid.bits.or(bits);
        let pes = Pes {
            decode,
            present,
            is_join,
            head,
            bytes: bytes[head..].to_vec(),
            packets: (first, last),
        };
        self.found.units.entry(pid).or_default().push(pes);
    }

    /// When a packet's last byte has arrived, in seconds.
    fn arrival(&self, number: usize) -> f64 {
        self.begins(number + 1)
    }

    /// When its first byte arrives: evenly from one time of the clock to the next.
    fn begins(&self, number: usize) -> f64 {
        let behind = self.clock.partition_point(|(packet, _)| *packet < number);
        let (Some((from, begin)), Some((to, end))) = (
            behind
                .checked_sub(1)
                .and_then(|before| self.clock.get(before)),
            self.clock.get(behind),
        ) else {
            return self.clock[behind.saturating_sub(1)].1 as f64 / 27e6;
        };
        let part = (number - from) as f64 / (to - from) as f64;
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
            for unit in units {
                let margin = unit.decode as f64 / 90e3 - self.arrival(unit.packets.1);
                self.found.margin = self.found.margin.min(margin);
            }
            self.found.buffered.insert(*pid, self.fill(*pid, units));
            self.found.transport.insert(*pid, self.transport(*pid));
        }
        self.found
    }

    /// The packets of a PID that lie between two times of the clock.
    fn timed(&self, pid: u16) -> impl Iterator<Item = (usize, usize)> + '_ {
        let first = self.clock.first().map_or(0, |(number, _)| *number);
        let last = self.clock.last().map_or(0, |(number, _)| *number);
        let packets = self.pids[&pid].packets.iter().copied();
        packets.filter(move |(number, _)| (first..last).contains(number))
    }

    /// Returns the highest fill of the main buffer: all received bytes with their heads, less the decoded
    /// units.
    fn fill(&self, pid: u16, units: &[Pes]) -> usize {
        let mut gone = units.iter().flat_map(|unit| {
            let whole = vec![(unit.bytes.len(), 0)];
            let frames = adts(&unit.bytes).unwrap_or(whole).into_iter().enumerate();
            frames.map(|(index, (bytes, behind))| {
                let head = if index == 0 { unit.head } else { 0 };
                ((unit.decode + behind) as f64 / 90e3, bytes + head)
            })
        });
        let (mut next, mut waiting, mut most) = (gone.next(), 0, 0);
        for (number, bytes) in self.timed(pid) {
            let now = self.arrival(number);
            while let Some((_, bytes)) = next.filter(|(decoded, _)| *decoded <= now) {
                waiting -= bytes as i64;
                next = gone.next();
            }
            waiting += bytes as i64;
            most = most.max(waiting);
        }
        most as usize
    }

    /// The most that waits in a PID's transport buffer.
    fn transport(&self, pid: u16) -> f64 {
        let bytes_per_second = self.pids[&pid].bits.unwrap_or(SOUND_BITS) / 8.0;
        let (mut waiting, mut most, mut last) = (0.0f64, 0.0f64, 0.0);
        for (number, _) in self.timed(pid) {
            let (begin, end) = (self.begins(number), self.arrival(number));
            waiting = (waiting - bytes_per_second * (begin - last)).max(0.0);
            waiting = (waiting + 188.0 - bytes_per_second * (end - begin)).max(0.0);
            most = most.max(waiting);
            last = end;
        }
        most
    }
}

/// The nearest to the one before.
fn unwrapped(time: i64, before: Option<i64>, wrap: i64) -> i64 {
    let Some(before) = before else { return time };
    let turns = (before - time + wrap / 2).div_euclid(wrap);
    time + turns * wrap
}
