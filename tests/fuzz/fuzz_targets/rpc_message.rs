//! Fuzzes what reads `rpc_message`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| helve_mcp::fuzzing::rpc_message(bytes));
