//! Generates the messages, and both sides of the services where the features ask for them, without protoc.

use std::{env, error::Error, fs, path::PathBuf};

use prost::Message;

const FILES: [&str; 8] = [
    "helve/v1/types.proto",
    "helve/v1/handles.proto",
    "helve/v1/state.proto",
    "helve/v1/transact.proto",
    "helve/v1/call.proto",
    "helve/v1/cluster.proto",
    "helve/command/v1/command.proto",
    "helve/peer/v1/peer.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::compile(FILES, ["proto"])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("helve.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure()
        .bytes(".")
        .btree_map(".")
        .build_client(env::var_os("CARGO_FEATURE_CLIENT").is_some())
        .build_server(env::var_os("CARGO_FEATURE_SERVER").is_some())
        .compile_fds(descriptors)?;
    Ok(())
}
