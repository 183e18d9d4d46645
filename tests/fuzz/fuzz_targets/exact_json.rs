//! Fuzzes what reads `exact_json`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| helve_client::fuzzing::exact_json(bytes));
