//! Fuzz target of the check `accounts`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| inputs::check("accounts", input));
