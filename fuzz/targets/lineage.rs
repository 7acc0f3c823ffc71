//! Inputs for [`input_properties::lineage`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| input_properties::lineage::check(data));
