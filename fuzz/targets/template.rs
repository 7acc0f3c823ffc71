//! Inputs for [`input_properties::template`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| input_properties::template::check(data));
