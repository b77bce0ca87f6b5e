//! Fuzz target of the check `trust_material`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| inputs::check("trust_material", input));
