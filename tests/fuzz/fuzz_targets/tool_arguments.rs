//! Fuzzes what reads `tool_arguments`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| helve_mcp::fuzzing::tool_arguments(bytes));
