//! Fuzz target of the check `pending`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| inputs::check("pending", input));
