//! Fuzzes what reads `forward_batch`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| helve_node::fuzzing::forward_batch(bytes));
