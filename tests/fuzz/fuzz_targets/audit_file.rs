//! Fuzzes what reads `audit_file`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| helve_node::fuzzing::audit_file(bytes));
