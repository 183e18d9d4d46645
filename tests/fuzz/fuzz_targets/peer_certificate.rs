//! Fuzzes what reads `peer_certificate`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| helve_node::fuzzing::peer_certificate(bytes));
