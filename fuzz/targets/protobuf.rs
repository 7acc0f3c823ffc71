//! Inputs for [`fuzz::protobuf`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::protobuf::check(data));
