//! Fuzzes what reads `client_stream`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| helve_node::fuzzing::client_stream(bytes));
