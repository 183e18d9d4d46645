//! The image that replaces the one that builds, where no registry can be reached: a root file
//! system of this machine's own shell and few tools, and the binary that was built here. The
//! `runtime` stage then packs that binary, with the libraries that it was linked against, by the
//! text of the Dockerfile.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use serde_json::Value;
use tokio::process::Command;

use crate::engine::{docker, printed, run};

/// What the `build` stage calls.
const TOOLS: [&str; 7] = ["sh", "bash", "ldd", "grep", "cp", "mkdir", "chmod"];
/// Where the shell that `RUN` names finds them.
const BIN: &str = "usr/bin";

/// The image, and the images that were made from it.
#[derive(Debug)]
pub(crate) struct BuildImage {
    name: String,
    /// Its only layer, which no other image has: a file in it bears the image's name.
    layer: String,
}

impl BuildImage {
    /// Makes it.
    ///
    /// # Errors
    /// If a tool is missing, or the engine does not take the image.
    pub(crate) async fn make(name: &str, binary: &Path) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("helve-image-").tempdir()?;
        let root = directory.path().join("root");
        lay_out(&root, name, binary).await?;
        let archive = directory.path().join("root.tar");
        let mut tar = Command::new("tar");
        tar.args(["--create", "--owner=0", "--group=0", "--file"])
            .arg(&archive);
        printed(tar_of(tar, &root)).await?;
        let archive = archive.to_str().context("temporary paths are UTF-8")?;
        docker(&["import", archive, name]).await?;
        let layer = layers(name).await?.into_iter().next();
        Ok(Self {
            name: name.to_owned(),
            layer: layer.context("the image has no layer")?,
        })
    }

    /// Removes it, and all images that were made from it.
    ///
    /// # Errors
    /// If the engine does not.
    pub(crate) async fn remove(&self) -> Result<()> {
        loop {
            let images = self.images().await?;
            if images.is_empty() {
                return Ok(());
            }
            // Stages of one second are listed in any order, and an image goes after those made from it: a pass
            // removes what has none left, and some of the others may have gone along.
            let mut removed = false;
            let mut refused = None;
            for image in &images {
                match docker(&["image", "rm", "--force", image]).await {
                    Ok(_) => removed = true,
                    Err(error) => refused = Some(error),
                }
            }
            match refused {
                Some(error) if !removed => return Err(error),
                _ => {}
            }
        }
    }

    /// The ids of it, and of all images that were made from it, the newest first.
    pub(crate) async fn images(&self) -> Result<Vec<String>> {
        let listed = docker(&["image", "ls", "--all", "--quiet", "--no-trunc"]).await?;
        let mut seen = BTreeSet::new();
        let mut made = Vec::new();
        for id in listed.lines().filter(|id| seen.insert(id.to_string())) {
            // Another build of this machine may have removed it meanwhile.
            if let Ok(layers) = layers(id).await
                && layers.first() == Some(&self.layer)
            {
                made.push(id.to_owned());
            }
        }
        Ok(made)
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

fn tar_of(mut tar: Command, root: &Path) -> Command {
    tar.arg("--directory").arg(root).arg(".");
    tar
}

async fn lay_out(root: &Path, name: &str, binary: &Path) -> Result<()> {
    for directory in [BIN, "out", "tmp"] {
        fs::create_dir_all(root.join(directory))?;
    }
    symlink(BIN, root.join("bin"))?;
    fs::write(root.join("out/made-for"), name)?;
    for tool in TOOLS {
        let path = which(tool).await?;
        fs::copy(&path, root.join(BIN).join(tool))?;
        copy_libraries(&path, root).await?;
    }
    let helve = root.join("out/helve");
    strip(binary, &helve).await?;
    copy_libraries(binary, root).await
}

/// Copies the binary without what only debuggers read, if there is a tool for that: several times less to copy.
async fn strip(binary: &Path, to: &Path) -> Result<()> {
    let mut strip = Command::new("strip");
    strip.arg("-o").arg(to).arg(binary);
    if !run(strip).await.is_ok_and(|output| output.status.success()) {
        fs::copy(binary, to)?;
    }
    Ok(())
}

async fn which(tool: &str) -> Result<PathBuf> {
    let mut command = Command::new("sh");
    command.args(["-c", "command -v \"$0\"", tool]);
    let path = printed(command).await;
    Ok(path.with_context(|| format!("no {tool} here"))?.into())
}

/// Copies the libraries that a program names to where its loader looks for them. A script names none.
async fn copy_libraries(program: &Path, root: &Path) -> Result<()> {
    let mut ldd = Command::new("ldd");
    ldd.arg(program);
    let output = run(ldd).await?;
    let listed = String::from_utf8_lossy(&output.stdout);
    let paths = listed.split_whitespace();
    for library in paths.filter(|word| word.starts_with('/')) {
        let to = root.join(library.trim_start_matches('/'));
        fs::create_dir_all(to.parent().context("a library lies in a directory")?)?;
        fs::copy(library, to)?;
    }
    Ok(())
}

async fn layers(image: &str) -> Result<Vec<String>> {
    let layers = ["image", "inspect", "--format", "{{json .RootFS.Layers}}"];
    let layers: Value = serde_json::from_str(&docker(&[&layers[..], &[image]].concat()).await?)?;
    let layers = layers.as_array().into_iter().flatten();
    Ok(layers
        .filter_map(|layer| layer.as_str().map(str::to_owned))
        .collect())
}
