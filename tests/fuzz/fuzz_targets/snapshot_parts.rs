//! Fuzzes what reads `snapshot_parts`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| helve_node::fuzzing::snapshot_parts(bytes));
