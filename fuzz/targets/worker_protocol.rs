//! Fuzz target of the check `worker_protocol`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| inputs::check("worker_protocol", input));
