//! Fuzz target of the check `machine_config`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| inputs::check("machine_config", input));
