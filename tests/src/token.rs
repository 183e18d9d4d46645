//! Tokens of callers under test.

use std::{fs, os::unix::fs::OpenOptionsExt as _, path::Path};

use anyhow::Result;
use bytes::Bytes;
use helve_client::Bearer;
use helve_node::{
    config::{TokenHash, token_text},
    stamp::secret_bytes,
};
use helve_proto::v1::{TokenGrant, TokenRole};

/// A token, and what it is known by.
pub struct Token {
    /// What its holder shows.
    pub text: String,
    /// What a cluster keeps of it.
    pub hash: TokenHash,
    /// The same as the text, for a client.
    pub bearer: Bearer,
}

impl Token {
    /// A new one, which no cluster knows yet.
    ///
    /// # Errors
    ///
    /// If the operating system gives no entropy.
    pub fn new() -> Result<Self> {
        let text = token_text(&*secret_bytes()?).to_string();
        Ok(Self {
            hash: TokenHash::of(&text),
            bearer: Bearer::given(&text)?,
            text,
        })
    }

    /// The bytes of its hash, as requests take them.
    #[must_use]
    pub fn hash(&self) -> Bytes {
        self.hash.bytes().to_vec().into()
    }

    /// Writes it to a file as secrets are kept: for a node's `--operator-token-file`.
    ///
    /// # Errors
    ///
    /// If there is such a file, or no room for it.
    pub fn write(&self, path: &Path) -> Result<()> {
        write_secret(path, self.text.as_bytes())
    }
}

/// Writes a file that its owner alone may read, which is how nodes want their secrets.
///
/// # Errors
///
/// If there is such a file, or no room for it.
pub fn write_secret(path: &Path, secret: &[u8]) -> Result<()> {
    let file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    Ok(std::io::Write::write_all(&mut &file, secret)?)
}

/// What a token grants: this role in this tenant, under this name, and without scopes.
#[must_use]
pub fn grant(tenant: &str, role: TokenRole, principal: &str) -> TokenGrant {
    TokenGrant {
        tenant: tenant.to_owned(),
        role: role.into(),
        principal: principal.to_owned(),
        ..TokenGrant::default()
    }
}
