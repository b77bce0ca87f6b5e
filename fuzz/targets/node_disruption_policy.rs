//! Fuzz target of the check `node_disruption_policy`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| inputs::check("node_disruption_policy", input));
