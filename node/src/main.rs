//! The `helve` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    helve_node::cli::main()
}
