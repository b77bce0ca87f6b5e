//! Fuzz target of the check `registries`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| inputs::check("registries", input));
