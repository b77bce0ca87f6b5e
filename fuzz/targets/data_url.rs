//! Fuzz target of the check `data_url`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| inputs::check("data_url", input));
