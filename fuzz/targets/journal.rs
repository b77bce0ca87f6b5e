//! Fuzz target of the check `journal`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| inputs::check("journal", input));
