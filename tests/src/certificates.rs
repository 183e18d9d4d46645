//! A CA for a cluster under test, and what it signs.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Result;
use helve_client::Tls;
use helve_node::tls::authority::{Authority, Issued, Life};

/// How long certificates hold where no test is about that.
pub const LIFE: Duration = Duration::from_secs(24 * 60 * 60);

/// A CA, with a directory for what it signs: `ca.crt`, and NAME.crt and NAME.key of each name.
pub struct Certificates {
    directory: PathBuf,
    authority: Authority,
    ca_pem: String,
}

impl Certificates {
    /// Makes a CA, and the directory.
    ///
    /// # Errors
    ///
    /// If there is no room for it.
    pub fn make(directory: PathBuf) -> Result<Self> {
        fs::create_dir(&directory)?;
        let (authority, ca) = Authority::make("a test's CA", Life::of(LIFE))?;
        fs::write(directory.join("ca.crt"), &ca.certificate_pem)?;
        Ok(Self {
            directory,
            authority,
            ca_pem: ca.certificate_pem,
        })
    }

    /// Signs a node's certificate, in the place of one of that name.
    ///
    /// # Errors
    ///
    /// If there is no room for it.
    pub fn node(&self, name: &str, host: &str, life: Life) -> Result<()> {
        self.put(name, &self.authority.node(name, &[host.to_owned()], life)?)
    }

    /// Signs a client's certificate, and answers how that client calls.
    ///
    /// # Errors
    ///
    /// If there is no room for it.
    pub fn client(&self, name: &str, life: Life) -> Result<Tls> {
        self.put(name, &self.authority.client(name, life)?)?;
        self.as_holder(name)
    }

    /// How somebody calls who trusts this CA, and shows the certificate of this name.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub fn as_holder(&self, name: &str) -> Result<Tls> {
        let read = |end| fs::read(self.path(&format!("{name}.{end}")));
        Ok(self.trusted().identity(read("crt")?, read("key")?))
    }

    /// How somebody calls who trusts this CA, and shows nothing.
    pub fn trusted(&self) -> Tls {
        Tls::new(&self.ca_pem)
    }

    /// Where a file of this name is.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn put(&self, name: &str, issued: &Issued) -> Result<()> {
        replace(&self.path(&format!("{name}.key")), &issued.key_pem, 0o600)?;
        let certificate = self.path(&format!("{name}.crt"));
        replace(&certificate, &issued.certificate_pem, 0o644)
    }
}

/// The file is there whole, before and after.
fn replace(path: &Path, content: &str, mode: u32) -> Result<()> {
    let aside = path.with_extension("aside");
    fs::write(&aside, content)?;
    fs::set_permissions(&aside, fs::Permissions::from_mode(mode))?;
    Ok(fs::rename(aside, path)?)
}

impl std::fmt::Debug for Certificates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Certificates")
            .field(&self.directory)
            .finish()
    }
}
