//! Fuzz target of the check `ignition`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| inputs::check("ignition", input));
