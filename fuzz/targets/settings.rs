//! Fuzz target of the check `settings`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| inputs::check("settings", input));
