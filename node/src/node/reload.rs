//! What a running node reads again when an operator asks for it, by SIGHUP.

use std::sync::Arc;

use helve_seal::KeyId;

use crate::{
    audit::{Audit, Unrecorded},
    tls::{PortTls, watch::Certificates},
    vault::Vault,
};

/// The files of a running node that change while it runs: its certificates, data keys and audit log. The node looks at them by
/// itself too; this is for an operator who wants it now, and wants to know what came of it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Reload {
    certificates: Certificates,
    vault: Arc<Vault>,
    audit: Audit,
}

impl Reload {
    pub(super) fn new(certificates: Certificates, vault: Arc<Vault>, audit: Audit) -> Self {
        Self {
            certificates,
            vault,
            audit,
        }
    }

    /// The ports with a certificate. Each reads its files again with [`PortTls::read_again`].
    #[must_use]
    pub fn ports(&self) -> &[Arc<PortTls>] {
        self.certificates.ports()
    }

    /// Whether there are data keys to read.
    #[must_use]
    pub fn has_data_keys(&self) -> bool {
        self.vault.has_files()
    }

    /// Reads the data keys again, and returns the ids of those that are held now. Blocks.
    ///
    /// # Errors
    /// Why they are not taken. Those that were read before stay in use.
    pub fn data_keys(&self) -> Result<Vec<KeyId>, String> {
        self.vault.read_again()
    }

    /// Whether there is an audit log in a file of its own.
    #[must_use]
    pub fn has_audit_file(&self) -> bool {
        self.audit.has_file()
    }

    /// Begins a new file if the audit log was moved or removed.
    ///
    /// # Errors
    /// [`Unrecorded`] if the writer of the log has ended.
    pub fn audit_file(&self) -> Result<(), Unrecorded> {
        self.audit.look()
    }
}
