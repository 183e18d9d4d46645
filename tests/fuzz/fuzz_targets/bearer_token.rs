//! Fuzzes what reads `bearer_token`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| helve_mcp::fuzzing::bearer_token(bytes));
