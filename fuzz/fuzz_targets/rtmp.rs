#![no_main]
#[path = "../../tests/doors/mod.rs"]
mod doors;

libfuzzer_sys::fuzz_target!(|data: &[u8]| doors::pass("rtmp", data));
