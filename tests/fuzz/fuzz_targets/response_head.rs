//! Fuzzes what reads `response_head`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| helve_client::fuzzing::response_head(bytes));
