// Behind the program's own modules, by .ci/panic-free/check: an entry whose panic the compiler could not
// rule out, with overflow checks, still calls a function that there is not, and the linker says its name.

#[allow(unsafe_code)]
macro_rules! entries {
    ($($name:ident: |$bytes:ident| $call:expr;)*) => {
        $(
            #[inline(never)]
            fn $name($bytes: &[u8]) {
                unsafe extern "C" {
                    #[link_name = concat!("a_panic_can_be_reached_in_", stringify!($name))]
                    fn reached();
                }
                struct Unwinding;
                impl Drop for Unwinding {
                    fn drop(&mut self) {
                        // SAFETY: never linked.
                        unsafe { reached() }
                    }
                }
                let unwinding = Unwinding;
                std::hint::black_box($call);
                std::mem::forget(unwinding);
            }
        )*
        fn main() {
            let bytes: &[u8] = std::hint::black_box(b"");
            $($name(bytes);)*
        }
    };
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}

fn first<const N: usize>(bytes: &[u8]) -> [u8; N] {
    *bytes.first_chunk().unwrap_or(&[0; N])
}

use crate::format::mpegts::packet::Packet as TsPacket;

fn seen<T>(found: T) {
    std::hint::black_box(found);
}

entries! {
    // Of this one a panic can be reached: it has to be named, or nothing is shown of the others.
    index: |bytes| bytes[0];
    rtp_packet: |bytes| rtp::packet::Packet::parse(bytes);
    rtp_control: |bytes| rtp::packet::Control::parse(bytes);
    rtp_or_bare: |bytes| rtp::bare::Bare::begins_with(bytes);
    rtp_sequence: |bytes| {
        let [a, b, c, d] = first(bytes);
        let mut sequence = rtp::sequence::Sequence::new(u16::from_be_bytes([a, b]));
        sequence.extend(u16::from_be_bytes([c, d]))
    };
    ebml_head: |bytes| format::ebml::head(bytes);
    ebml_unsigned: |bytes| format::ebml::unsigned(bytes);
    ebml_elements: |bytes| format::ebml::elements(bytes).for_each(seen);
    mp4_box_head: |bytes| format::mp4::box_head(bytes).is_ok();
    mp4_number_after_times: |bytes| format::mp4::number_after_times(bytes);
    mp4_descriptor: |bytes| format::mp4::descriptor(bytes, 5);
    sound_frame: |bytes| format::frames::Frame::read(bytes, 0).is_ok();
    ts_payload: |bytes| TsPacket::within(bytes, 0).map(|packet| packet.payload().len());
    ts_head: |bytes| TsPacket::within(bytes, 0).map(|packet| (packet.pid(), packet.counter_before(), packet.is_random_access()));
    ts_clock: |bytes| TsPacket::within(bytes, 0).and_then(|packet| packet.clock_reference());
    ts_around: |bytes| TsPacket::within(bytes, 4).map(|packet| packet.around().0.len());
    ts_decoding_time: |bytes| format::mpegts::decoding_time(bytes).is_some();
    psi_checksum: |bytes| format::mpegts::psi::checksum(bytes);
    psi_program_number: |bytes| format::mpegts::psi::program_number(bytes);
    psi_body: |bytes| format::mpegts::psi::body(bytes, 2).map(<[u8]>::len);
    psi_program_maps: |bytes| format::mpegts::psi::program_maps(bytes).for_each(seen);
    psi_streams: |bytes| format::mpegts::psi::elementary_streams(bytes).for_each(seen);
    psi_descriptors: |bytes| format::mpegts::psi::descriptors(bytes).for_each(seen);
}
