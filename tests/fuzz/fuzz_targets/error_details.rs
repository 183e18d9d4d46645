//! Fuzzes what reads `error_details`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| helve_client::fuzzing::error_details(bytes));
