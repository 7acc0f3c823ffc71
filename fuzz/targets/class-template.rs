//! Inputs for [`input_properties::class_template`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| input_properties::class_template::check(data));
