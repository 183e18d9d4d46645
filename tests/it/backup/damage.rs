//! A bit that flips in any file of a backup.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Result;
use helve_tests::{ledger::Ledger, promise};

use super::{super::nodes, MINTS, back_up, mint, refusal, report, restore, verify};

/// All files below a directory that hold something.
fn files(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files(&path)?);
        } else if fs::metadata(&path)?.len() > 0 {
            found.push(path);
        }
    }
    Ok(found)
}

#[tokio::test]
async fn bit_flipped_in_any_file_is_named_and_nothing_is_restored() -> Result<()> {
    let cluster = nodes(1).start().await?;
    let ledger = Ledger::new("carts");
    mint(&ledger, &cluster, MINTS).await?;
    let directory = tempfile::tempdir()?;
    let (to, data) = (directory.path().join("to"), directory.path().join("data"));
    report(&back_up(&cluster, 1, &to).await?)?;
    let files = files(&to)?;
    promise!(files.len() >= 4, "only {files:?}");
    for path in files {
        let whole = fs::read(&path)?;
        let mut flipped = whole.clone();
        flipped[whole.len() / 3] ^= 4;
        fs::write(&path, flipped)?;
        let name = path.display().to_string();
        let output = verify(&to).await?;
        promise!(output.status.code() == Some(1), "{name}: {output:?}");
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        promise!(told.contains(&name), "{name} is not named: {told}");
        let said = refusal(&restore(&to, &data, &[]).await?, 2)?;
        promise!(said.contains(&name) && !data.exists(), "{name}: {said}");
        fs::write(&path, whole)?;
    }
    report(&verify(&to).await?)?;
    report(&restore(&to, &data, &[]).await?)?;
    Ok(())
}
