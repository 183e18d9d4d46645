//! Fuzzes what reads `tool_document`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| helve_state::fuzzing::tool_document(bytes));
