//! Inputs for [`fuzz::template`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::template::check(data));
