//! Fuzz target of the check `pinned_images`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| inputs::check("pinned_images", input));
