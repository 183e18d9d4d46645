//! The files of a CA's directory.

use std::{
    fs,
    io::Write,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use tempfile::NamedTempFile;

use crate::tls::{
    NamedFile,
    authority::{Authority, Issued},
};

/// Whether files that are there may be written over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Replace {
    Never,
    Allowed,
}

/// The CA that was made here.
pub(super) fn read_authority(dir: &Path) -> anyhow::Result<Authority> {
    let file = |name: &str| NamedFile {
        flag: "--dir",
        path: dir.join(name),
    };
    let hint = || format!("make a CA first: helve cert ca --dir {}", dir.display());
    let certificate = file("ca.crt").public().with_context(hint)?;
    let key = file("ca.key").secret().with_context(hint)?;
    let text =
        |bytes| std::str::from_utf8(bytes).context("--dir: ca.crt and ca.key must be in PEM");
    let authority = Authority::load(text(&certificate)?, text(&key)?);
    authority.context("--dir: ca.crt and ca.key")
}

/// Writes NAME.crt for everyone and NAME.key for its owner alone, and says where. Each is there whole or not at all.
pub(super) fn write_pair(
    dir: &Path,
    name: &str,
    issued: &Issued,
    replace: Replace,
) -> anyhow::Result<(PathBuf, PathBuf)> {
    let is_file_name = Path::new(name)
        .file_name()
        .is_some_and(|whole| whole == name);
    if !is_file_name || name.starts_with('.') {
        bail!("--name: `{name}` cannot be the name of a file");
    }
    let places = [
        dir.join(format!("{name}.crt")),
        dir.join(format!("{name}.key")),
    ];
    if replace == Replace::Never
        && let Some(there) = places.iter().find(|path| path.exists())
    {
        bail!(
            "{} is there already: choose another --name or --dir, or for a node's or client's certificate pass --replace",
            there.display()
        );
    }
    fs::create_dir_all(dir).with_context(|| format!("--dir {}", dir.display()))?;
    let [certificate, key] = places;
    // The key first: who looks at both in between finds a pair that does not match, and looks again.
    write(dir, &key, issued.key_pem.as_bytes(), 0o600)?;
    write(dir, &certificate, issued.certificate_pem.as_bytes(), 0o644)?;
    Ok((certificate, key))
}

fn write(dir: &Path, path: &Path, content: &[u8], mode: u32) -> anyhow::Result<()> {
    let attempt = || {
        // Made for its owner alone, and shown to others only where it may be.
        let mut file = NamedTempFile::new_in(dir)?;
        file.write_all(content)?;
        file.as_file()
            .set_permissions(fs::Permissions::from_mode(mode))?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        Ok::<_, std::io::Error>(())
    };
    attempt().with_context(|| format!("--dir: {} cannot be written", path.display()))
}
