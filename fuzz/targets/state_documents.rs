//! Fuzz target of the check `state_documents`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| inputs::check("state_documents", input));
