//! Cuts the rmcp server out of docs/mcp.md, so that a test runs what the page shows.

use std::{env, error::Error, fs, path::PathBuf};

const PAGE: &str = "../docs/mcp.md";
/// What the block holds that is meant.
const SERVER: &str = "struct YourServer";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={PAGE}");
    println!("cargo::rerun-if-changed=build.rs");
    let page = fs::read_to_string(PAGE)?;
    let blocks = page.split("```rust\n").skip(1);
    let mut blocks = blocks.filter_map(|rest| rest.split("```").next());
    let block = blocks.find(|block| block.contains(SERVER));
    let block = block.ok_or("docs/mcp.md has no block of Rust with `struct YourServer`")?;
    let directory = env::var_os("OUT_DIR").ok_or("OUT_DIR is set by cargo")?;
    fs::write(PathBuf::from(directory).join("your_server.rs"), block)?;
    Ok(())
}
