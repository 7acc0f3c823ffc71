//! Inputs for [`input_properties::rego`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| input_properties::rego::check(data));
