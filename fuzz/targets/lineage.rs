//! Inputs for [`fuzz::lineage`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::lineage::check(data));
