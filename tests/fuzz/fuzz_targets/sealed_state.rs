//! Fuzzes what reads `sealed_state`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| helve_request_state::fuzzing::sealed_state(bytes));
