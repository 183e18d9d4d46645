//! Fuzzes what reads `page_origin`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| helve_mcp::fuzzing::page_origin(bytes));
