//! Fuzzes what reads `client_message`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| helve_node::fuzzing::client_message(bytes));
