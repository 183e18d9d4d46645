//! The files of a CA's directory.

use std::{
    fs::DirBuilder,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use helve_node::tls::{
    NamedFile,
    authority::{Authority, Issued},
};

use crate::whole_file::{self, Readers, Replace};

/// A directory of certificates, and the flag that named it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) flag: &'static str,
    pub(crate) dir: &'a Path,
}

impl Place<'_> {
    /// Where the certificate of this name is, and its key.
    ///
    /// # Errors
    /// If files cannot be named so.
    pub(crate) fn pair(&self, name: &str) -> anyhow::Result<[PathBuf; 2]> {
        let is_file_name = Path::new(name)
            .file_name()
            .is_some_and(|whole| whole == name);
        if !is_file_name || name.starts_with('.') {
            bail!("`{name}` cannot be a file name");
        }
        Ok(["crt", "key"].map(|kind| self.dir.join(format!("{name}.{kind}"))))
    }

    /// The CA that was made here.
    ///
    /// # Errors
    /// If there is none, or it is none that was made by `helve`.
    pub(crate) fn authority(&self) -> anyhow::Result<Authority> {
        let Self { flag, dir } = *self;
        let file = |name: &str| NamedFile {
            flag,
            path: dir.join(name),
        };
        let hint = || format!("make a CA first: helve cert ca --dir {}", dir.display());
        let certificate = file("ca.crt").public().with_context(hint)?;
        let key = file("ca.key").secret().with_context(hint)?;
        let names = || format!("{flag}: ca.crt and ca.key");
        let text = |bytes| std::str::from_utf8(bytes).with_context(names);
        Authority::load(text(&certificate)?, text(&key)?).with_context(names)
    }

    /// Writes NAME.crt for everyone and NAME.key for its owner alone, and says where. Each is there whole or not at all.
    ///
    /// # Errors
    /// If one of them is there and may not be replaced, or they cannot be written.
    pub(crate) fn write_pair(
        &self,
        name: &str,
        issued: &Issued,
        replace: Replace,
    ) -> anyhow::Result<[PathBuf; 2]> {
        let Self { flag, dir } = *self;
        let [certificate, key] = self.pair(name).context("--name")?;
        if replace == Replace::Never
            && let Some(there) = [&certificate, &key].into_iter().find(|path| path.exists())
        {
            bail!(
                "{} exists already: choose another --name or --dir, or for a node's or client's certificate pass --replace",
                there.display()
            );
        }
        // A user who may write here could put other keys and CAs here.
        let mut builder = DirBuilder::new();
        let made = builder.recursive(true).mode(0o700).create(dir);
        made.with_context(|| format!("{flag} {}", dir.display()))?;
        let write = |path: &PathBuf, pem: &str, readers| {
            whole_file::write(path, pem.as_bytes(), readers, replace)
                .with_context(|| format!("{flag}: {} cannot be written", path.display()))
        };
        // The key first: who looks at both in between finds a pair that does not match, and looks again.
        write(&key, &issued.key_pem, Readers::Owner)?;
        write(&certificate, &issued.certificate_pem, Readers::Everyone)?;
        Ok([certificate, key])
    }
}
