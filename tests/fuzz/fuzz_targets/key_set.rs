//! Fuzzes what reads `key_set`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| helve_mcp::fuzzing::key_set(bytes));
