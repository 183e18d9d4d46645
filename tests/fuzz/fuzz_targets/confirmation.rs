//! Fuzzes what reads `confirmation`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| helve_mcp::fuzzing::confirmation(bytes));
