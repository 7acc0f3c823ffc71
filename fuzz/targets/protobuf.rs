//! Inputs for [`input_properties::protobuf`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| input_properties::protobuf::check(data));
