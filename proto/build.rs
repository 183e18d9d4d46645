//! Generates the messages, and both sides of the services where the features ask for them, without protoc.

use std::{env, error::Error, fs, path::PathBuf};

use prost::Message;

const FILES: [&str; 10] = [
    "helve/v1/types.proto",
    "helve/v1/access.proto",
    "helve/v1/handles.proto",
    "helve/v1/state.proto",
    "helve/v1/transact.proto",
    "helve/v1/call.proto",
    "helve/v1/cluster.proto",
    "helve/v1/watch.proto",
    "helve/command/v1/command.proto",
    "helve/peer/v1/peer.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::compile(FILES, ["proto"])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("helve.bin"), descriptors.encode_to_vec())?;
    let has = |feature: &str| env::var_os(format!("CARGO_FEATURE_{feature}")).is_some();
    let generator = || {
        tonic_prost_build::configure()
            .bytes(".")
            .btree_map(".")
            // What passes through queues would be moved whole each time.
            .boxed(".helve.peer.v1.ForwardCall.command")
            .boxed(".helve.peer.v1.ForwardAnswer.answer.outcome")
            .build_client(has("CLIENT"))
            .build_server(has("SERVER"))
    };
    generator().compile_fds(descriptors.clone())?;
    // Once more for nodes alone: among themselves they speak with checksums.
    let peer = out.join("peer");
    fs::create_dir_all(&peer)?;
    generator()
        .build_client(has("PEER"))
        .build_server(has("PEER"))
        .codec_path("crate::checked::CheckedCodec")
        .out_dir(peer)
        .compile_fds(descriptors)?;
    Ok(())
}
