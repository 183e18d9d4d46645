//! Fuzzes what reads `watched_changes`.

#![no_main]

#[path = "../../../node/machine/tests/it/host.rs"]
#[allow(dead_code, reason = "shared with the machine's own tests")]
mod host;
#[path = "../../../node/machine/tests/it/made_up.rs"]
#[allow(dead_code, reason = "shared with the machine's own tests")]
mod made_up;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| made_up::watched_changes(bytes));
