//! A certificate that the CA signs, and its key.

use std::{path::Path, time::Duration};

use anyhow::{Context as _, bail};
use helve_node::{
    stamp,
    tls::{
        NamedFile,
        authority::{Authority, Issued, Life},
    },
};

use super::secret::{Secret, State, is_there, replacing};
use crate::cert::files::Place;

/// How long it holds.
const LIFE: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// A certificate that the CA signs.
pub(super) struct Leaf<'a> {
    pub(super) place: Place<'a>,
    pub(super) name: &'a str,
    /// The node's hosts; `None` for a client.
    pub(super) hosts: Option<&'a [String]>,
}

impl Leaf<'_> {
    /// The flag that named it.
    pub(super) fn flag(&self) -> &'static str {
        if self.hosts.is_some() {
            "--node"
        } else {
            "--client"
        }
    }

    /// Makes it if it is missing, or has expired, or is about to.
    ///
    /// # Errors
    /// If its certificate is there without its key, or one of them cannot be read or written.
    pub(super) fn make(&self, authority: &Authority, all: &mut Vec<Secret>) -> anyhow::Result<()> {
        let [certificate, key] = self.place.pair(self.name)?;
        let state = match (is_there(&certificate)?, is_there(&key)?) {
            (true, true) if !self.is_at_its_end(&certificate)? => State::Kept,
            (true, true) => State::Renewed,
            (true, false) => bail!(
                "{}: {} is missing: restore it, or remove {} so that both are made again",
                self.place.flag,
                key.display(),
                certificate.display()
            ),
            (false, _) => State::Made,
        };
        if state != State::Kept {
            let issued = self.issue(authority).context(self.flag())?;
            let replace = replacing(&key)?;
            self.place.write_pair(self.name, &issued, replace)?;
        }
        let (shown, kept) = match self.hosts {
            Some(_) => (
                "--tls-cert and --peer-tls-cert",
                "--tls-key and --peer-tls-key",
            ),
            None => ("--tls-client-cert", "--tls-client-key"),
        };
        let name = self.name;
        let purpose = format!("{name}'s certificate: its {shown}");
        all.push(Secret::new(certificate, purpose, state));
        let purpose = format!("{name}'s key: its {kept}");
        all.push(Secret::new(key, purpose, state));
        Ok(())
    }

    fn issue(&self, authority: &Authority) -> anyhow::Result<Issued> {
        let life = Life::of(LIFE);
        Ok(match self.hosts {
            Some(hosts) => authority.node(self.name, hosts, life)?,
            None => authority.client(self.name, life)?,
        })
    }

    /// Whether nodes warn of its end.
    fn is_at_its_end(&self, certificate: &Path) -> anyhow::Result<bool> {
        let file = NamedFile {
            flag: self.place.flag,
            path: certificate.to_owned(),
        };
        Ok(file.certificate()?.warning(stamp::wall_ms()).is_some())
    }
}
