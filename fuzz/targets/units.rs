//! Fuzz target of the check `units`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| inputs::check("units", input));
