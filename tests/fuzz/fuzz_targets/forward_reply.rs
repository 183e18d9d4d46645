//! Fuzzes what reads `forward_reply`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| helve_node::fuzzing::forward_reply(bytes));
