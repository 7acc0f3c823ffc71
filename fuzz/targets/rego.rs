//! Inputs for [`fuzz::rego`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::rego::check(data));
