//! Fuzz target of the check `kubeconfig`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| inputs::check("kubeconfig", input));
