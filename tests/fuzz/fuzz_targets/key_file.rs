//! Fuzzes what reads `key_file`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| helve_mcp::fuzzing::key_file(bytes));
