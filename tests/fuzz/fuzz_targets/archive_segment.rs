//! Fuzzes what reads `archive_segment`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| helve_node::fuzzing::archive_segment(bytes));
