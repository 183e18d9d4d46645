//! Fuzzes what reads `exchange_reply`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| helve_client::fuzzing::exchange_reply(bytes));
