//! Fuzz target of the check `kernel_arguments`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| inputs::check("kernel_arguments", input));
