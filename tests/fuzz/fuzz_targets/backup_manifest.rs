//! Fuzzes what reads `backup_manifest`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| helve_node::fuzzing::backup_manifest(bytes));
