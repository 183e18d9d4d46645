//! Fuzzes what reads `json_body`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| helve_node::fuzzing::json_body(bytes));
