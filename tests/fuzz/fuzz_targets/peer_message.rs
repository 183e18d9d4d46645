//! Fuzzes what reads `peer_message`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| helve_node::fuzzing::peer_message(bytes));
