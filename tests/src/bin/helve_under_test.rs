//! The `helve` binary for tests. With the feature `planted` the environment chooses a bug (`HELVE_PLANTED=replay-off`), so that a
//! test can show that it would notice. It has a name of its own, so that building the tests never replaces `helve`.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    helve_cli::main()
}
