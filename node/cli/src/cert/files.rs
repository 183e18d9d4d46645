//! The files of a CA's directory.

use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use anyhow::{Context, anyhow, bail};
use helve_node::tls::{
    NamedFile,
    authority::{Authority, Issued},
};
use rustls::pki_types::ServerName;

use crate::whole_file::{self, Readers, Replace};

/// A file system takes 255 bytes: there is room for `.crt` behind a name, and for what names a file that is being written.
const NAME_BYTES_MAX: usize = 200;

/// Checks what a node is reached at, for its certificate: a name that no caller can look up is none that a certificate is good for.
///
/// # Errors
/// If it is neither a DNS name, perhaps with `*.` before it, nor an IP address.
pub(crate) fn host(text: &str) -> Result<String, String> {
    let name = text.strip_prefix("*.").unwrap_or(text);
    match ServerName::try_from(name) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err(format!(
            "`{text}` is neither a DNS name nor an IP address: give one, such as node-1.internal or 10.0.0.1"
        )),
    }
}

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
        if name.len() > NAME_BYTES_MAX {
            bail!(
                "a name of {} bytes is given: give at most {NAME_BYTES_MAX}",
                name.len()
            );
        }
        if !is_file_name || name.starts_with('.') || name.contains(char::is_control) {
            bail!("`{name}` cannot be a file name: give one such as node-1");
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
        let is_missing = |name: &str| {
            let found = fs::metadata(dir.join(name));
            found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        };
        if is_missing("ca.crt") && is_missing("ca.key") {
            bail!(
                "{flag} {}: no CA is there; make one first: `helve cert ca --dir {0}`",
                dir.display()
            );
        }
        let certificate = file("ca.crt").public()?;
        let key = file("ca.key").secret()?;
        let names = || format!("{flag}: ca.crt and ca.key");
        let text = |bytes| std::str::from_utf8(bytes).with_context(names);
        Authority::load(text(&certificate)?, text(&key)?).with_context(names)
    }

    /// Makes the directory, unless it is there.
    ///
    /// # Errors
    /// If something else is there, or it cannot be made.
    pub(crate) fn create(&self, builder: &DirBuilder) -> anyhow::Result<()> {
        let Self { flag, dir } = *self;
        if dir.exists() && !dir.is_dir() {
            bail!(
                "{flag} {}: it is no directory; name another one",
                dir.display()
            );
        }
        let made = builder.create(dir);
        made.map_err(|error| {
            let advice = whole_file::directory_advice(&error);
            anyhow!("{flag} {}: {advice}", dir.display())
        })
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
        let Self { flag, .. } = *self;
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
        self.create(DirBuilder::new().recursive(true).mode(0o700))?;
        let write = |path: &PathBuf, pem: &str, readers| {
            whole_file::write(path, pem.as_bytes(), readers, replace)
                .with_context(|| format!("{flag}: {} cannot be written", path.display()))
        };
        // The key first: who looks at both in between finds a pair that does not match, and looks again.
        write(&key, &issued.key_pem, Readers::Owner)?;
        let written = write(&certificate, &issued.certificate_pem, Readers::Everyone);
        if written.is_err() && replace == Replace::Never {
            // A key alone would keep the corrected command from making both.
            fs::remove_file(&key)
                .with_context(|| format!("{flag}: {} cannot be removed", key.display()))?;
        }
        written?;
        Ok([certificate, key])
    }
}

#[cfg(test)]
mod tests {
    use helve_node::tls::authority::Life;

    use super::*;

    const LIFE: std::time::Duration = std::time::Duration::from_secs(3_600);

    fn place(dir: &Path) -> Place<'_> {
        Place { flag: "--dir", dir }
    }

    #[test]
    fn host_is_a_dns_name_or_an_address() {
        for good in [
            "localhost",
            "node-1.internal",
            "my_node",
            "10.0.0.1",
            "::1",
            "*.a.b",
        ] {
            assert_eq!(host(good).as_deref(), Ok(good));
        }
        for bad in ["a b", "", "a:7400", "http://a", "a/b", "*.", "[::1]"] {
            let why = host(bad).unwrap_err();
            assert!(why.contains(bad) && why.contains("10.0.0.1"), "{why}");
        }
    }

    #[test]
    fn only_a_ca_that_is_not_there_is_to_be_made() {
        let directory = tempfile::tempdir().unwrap();
        let said = || format!("{:#}", place(directory.path()).authority().err().unwrap());
        assert!(said().contains("helve cert ca --dir"), "{}", said());
        // It is there, and cannot be read.
        fs::create_dir(directory.path().join("ca.crt")).unwrap();
        assert!(!said().contains("helve cert ca"), "{}", said());
        assert!(
            said().contains("ca.crt") && said().contains("--dir"),
            "{}",
            said()
        );
    }

    #[test]
    fn name_that_no_file_should_have_is_refused() {
        let dir = Path::new("certs");
        for bad in [
            "",
            "../x",
            ".x",
            "a/b",
            "a\nb",
            "a\u{1b}[31m",
            &"x".repeat(201),
        ] {
            let why = place(dir).pair(bad).unwrap_err().to_string();
            assert!(why.len() < 100 && why.contains("give"), "{why}");
        }
        for good in ["node-1", "n\u{f6}de", &"x".repeat(200)] {
            assert!(place(dir).pair(good).is_ok(), "{good}");
        }
    }

    #[test]
    fn directory_that_cannot_be_made_is_named_with_what_to_do() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        std::os::unix::fs::symlink("/nowhere/at/all", path("link")).unwrap();
        fs::write(path("file"), "").unwrap();
        for (name, why) in [
            (
                "link",
                "a link to a directory that does not exist; create that",
            ),
            (
                "link/x",
                "a link to a directory that does not exist; create that",
            ),
            ("file/x", "it lies in a file; name a directory"),
        ] {
            let made = place(&path(name)).create(DirBuilder::new().recursive(true));
            let said = made.unwrap_err().to_string();
            let flag = format!("--dir {}: ", path(name).display());
            assert!(said.starts_with(&flag) && said.contains(why), "{said}");
        }
    }

    #[test]
    fn directory_that_is_a_file_is_said_to_be_none() {
        let error = place(Path::new("/dev/null")).create(DirBuilder::new().recursive(true));
        let said = error.unwrap_err().to_string();
        assert!(
            said.starts_with("--dir /dev/null: it is no directory"),
            "{said}"
        );
    }

    #[test]
    fn pair_that_cannot_be_written_whole_leaves_no_key() {
        let directory = tempfile::tempdir().unwrap();
        let (_, issued) = Authority::make("ca", Life::of(LIFE)).unwrap();
        // A link to nowhere is not there, and cannot be written over.
        let certificate = directory.path().join("ca.crt");
        std::os::unix::fs::symlink(directory.path().join("nowhere/ca.crt"), &certificate).unwrap();
        let written = place(directory.path()).write_pair("ca", &issued, Replace::Never);
        assert!(written.is_err());
        assert!(!directory.path().join("ca.key").exists(), "a key is left");
    }
}
