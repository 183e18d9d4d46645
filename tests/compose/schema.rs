//! `deploy/compose.yaml` against the compose spec, where compose v2 is not here to be asked.

use std::{env, path::PathBuf};

use anyhow::Result;
use tokio::process::Command;

use crate::engine::printed;

/// Where the build's tools put the checker, below the home directory.
const CHECKER: &str = ".cache/helve/check-jsonschema/bin/check-jsonschema";

/// Checks the file by the schema of the compose spec, and says that it did; or says that nothing here can.
///
/// # Errors
/// Where the file breaks the schema.
pub(crate) async fn check() -> Result<()> {
    let kept = env::home_dir().unwrap_or_default().join(CHECKER);
    let checker = if kept.exists() {
        kept
    } else {
        PathBuf::from("check-jsonschema")
    };
    let mut version = Command::new(&checker);
    version.arg("--version");
    let Ok(version) = printed(version).await else {
        println!(
            "compose v2 is not here, and check-jsonschema neither: compose.yaml was tried with compose v1 alone"
        );
        return Ok(());
    };
    let mut check = Command::new(&checker);
    check
        .args(["--builtin-schema", "vendor.compose-spec"])
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../deploy/compose.yaml"
        ));
    printed(check).await?;
    println!(
        "compose v2 is not here: compose.yaml was checked by the compose spec's schema alone ({version})"
    );
    Ok(())
}
