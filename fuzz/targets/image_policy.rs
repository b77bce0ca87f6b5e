//! Fuzz target of the check `image_policy`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| inputs::check("image_policy", input));
