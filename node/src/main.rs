//! The `helve` binary: the command line, on a runtime of one thread. A node brings its own.

use std::process::ExitCode;

use clap::Parser;
use helve_node::cli::Cli;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime.block_on(cli.run()),
        Err(error) => {
            eprintln!("helve: the operating system gives no runtime: {error}");
            ExitCode::from(4)
        }
    }
}
