//! The secrets of a cluster: which files there are, what each is for, and how what is missing is made.

use std::{
    collections::BTreeSet,
    fs::{self, DirBuilder},
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};
use helve_node::tls::authority::{Authority, Life};

use super::{
    leaf::Leaf,
    secret::{Secret, State, is_there, once, replacing},
};
use crate::{
    access::token::secret,
    cert::files::Place,
    data_key,
    whole_file::{self, Readers, Replace},
};

/// How long the CA holds.
const LIFE: Duration = Duration::from_secs(3_650 * 24 * 60 * 60);
const CA: &str = "ca";
const TRUSTED: &str =
    "the CA to trust: --peer-tls-ca and --tls-client-ca of nodes, --tls-ca of callers";

/// A node, by the name of its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeName {
    pub(crate) name: String,
    /// The DNS names and IP addresses at which it is reached.
    pub(crate) hosts: Vec<String>,
}

/// What a cluster needs. The directories may be one.
#[derive(Debug, Clone)]
pub(crate) struct Secrets {
    /// What nodes need.
    pub(crate) dir: PathBuf,
    /// What signs.
    pub(crate) ca_dir: PathBuf,
    /// What callers need.
    pub(crate) client_dir: PathBuf,
    pub(crate) nodes: Vec<NodeName>,
    /// Names of tokens that are to be let in.
    pub(crate) tokens: Vec<String>,
    /// Names of callers that show a certificate.
    pub(crate) clients: Vec<String>,
}

impl Secrets {
    /// Makes what is missing, and lists what exists.
    ///
    /// # Errors
    /// If two files would be one, what is there does not belong together, or something cannot be read or written. What was made by
    /// then stays, and is kept the next time.
    pub(crate) fn make(&self) -> anyhow::Result<Vec<Secret>> {
        let leaves: Vec<_> = self.leaves().collect();
        self.check_names(&leaves)?;
        for place in [self.ca(), self.place(), self.client_place()] {
            place.create(DirBuilder::new().recursive(true).mode(0o700))?;
        }
        let mut all = Vec::new();
        let authority = self.authority(&leaves, &mut all)?;
        self.spread(&mut all)?;
        for leaf in &leaves {
            leaf.make(&authority, &mut all)?;
        }
        let operator =
            "the first operator's token: --operator-token-file of nodes, --token-file of operators";
        all.push(once(self.operator_token(), operator, new_token)?);
        for name in &self.tokens {
            let purpose =
                format!("{name}'s token: helve token create --text-file, --token-file of {name}");
            all.push(once(self.token(name), purpose, new_token)?);
        }
        let sealing = "the key that seals values: --data-key-file of nodes";
        all.push(once(self.data_key(), sealing, |path| {
            data_key::make(path).map(drop)
        })?);
        Ok(all)
    }

    fn operator_token(&self) -> PathBuf {
        self.dir.join("operator.token")
    }

    fn data_key(&self) -> PathBuf {
        self.dir.join("data.key")
    }

    fn token(&self, name: &str) -> PathBuf {
        self.client_dir.join(format!("{name}.token"))
    }

    fn place(&self) -> Place<'_> {
        Place {
            flag: "--dir",
            dir: &self.dir,
        }
    }

    /// The flag that named a directory: `own`, unless it is that of `--dir`.
    fn flag_of(&self, dir: &Path, own: &'static str) -> &'static str {
        if dir == self.dir { "--dir" } else { own }
    }

    fn ca(&self) -> Place<'_> {
        Place {
            flag: self.flag_of(&self.ca_dir, "--ca-dir"),
            dir: &self.ca_dir,
        }
    }

    fn client_place(&self) -> Place<'_> {
        Place {
            flag: self.flag_of(&self.client_dir, "--client-dir"),
            dir: &self.client_dir,
        }
    }

    fn leaves(&self) -> impl Iterator<Item = Leaf<'_>> {
        let nodes = self.nodes.iter().map(|node| Leaf {
            place: self.place(),
            name: &node.name,
            hosts: Some(&node.hosts),
        });
        let clients = self.clients.iter().map(|name| Leaf {
            place: self.client_place(),
            name,
            hosts: None,
        });
        nodes.chain(clients)
    }

    /// A file that were two things would be kept as the first, and be no good as the second.
    fn check_names(&self, leaves: &[Leaf<'_>]) -> anyhow::Result<()> {
        let mut files = BTreeSet::from([self.operator_token(), self.data_key()]);
        files.extend(self.ca().pair(CA)?);
        files.extend(self.copies());
        for leaf in leaves {
            for file in leaf.place.pair(leaf.name).context(leaf.flag())? {
                ensure!(files.insert(file), taken(leaf.flag(), leaf.name));
            }
        }
        for name in &self.tokens {
            self.client_place().pair(name).context("--token")?;
            ensure!(files.insert(self.token(name)), taken("--token", name));
        }
        Ok(())
    }

    /// Where ca.crt is besides the directory of the CA.
    fn copies(&self) -> impl Iterator<Item = PathBuf> {
        let dirs = BTreeSet::from([&self.dir, &self.client_dir]);
        let dirs = dirs.into_iter().filter(|dir| **dir != self.ca_dir);
        dirs.map(|dir| dir.join("ca.crt"))
    }

    /// The CA.
    fn authority(&self, leaves: &[Leaf<'_>], all: &mut Vec<Secret>) -> anyhow::Result<Authority> {
        let [certificate, key] = self.ca().pair(CA)?;
        let (authority, state) = match (is_there(&certificate)?, is_there(&key)?) {
            (true, true) => (self.ca().authority()?, State::Kept),
            // A key alone is what a run that was killed leaves. Nothing bears its signature.
            (false, _) if self.signed(leaves)?.is_none() => {
                let made = Authority::make("Helve development CA", Life::of(LIFE));
                let (authority, issued) = made.context(self.ca().flag)?;
                self.ca().write_pair(CA, &issued, replacing(&key)?)?;
                (authority, State::Made)
            }
            (has_certificate, _) => bail!(
                "{}: {} is missing, but certificates of its CA exist: restore it, or remove that CA's certificates, such as {}, \
                 and their keys to start over",
                self.ca().flag,
                if has_certificate { &key } else { &certificate }.display(),
                self.signed(leaves)?
                    .as_ref()
                    .unwrap_or(&certificate)
                    .display()
            ),
        };
        all.push(Secret::new(certificate, TRUSTED, state));
        let signs = "signs certificates: keep it away from nodes and callers";
        all.push(Secret::new(key, signs, state));
        Ok(authority)
    }

    /// Copies the CA's certificate to those who trust it.
    fn spread(&self, all: &mut Vec<Secret>) -> anyhow::Result<()> {
        let [certificate, _] = self.ca().pair(CA)?;
        let pem = fs::read(&certificate).with_context(|| {
            format!(
                "{}: {} cannot be read",
                self.ca().flag,
                certificate.display()
            )
        })?;
        for copy in self.copies() {
            let copied = once(copy, TRUSTED, |copy| {
                let written = whole_file::write(copy, &pem, Readers::Everyone, Replace::Never);
                written.with_context(|| format!("{} cannot be written", copy.display()))
            })?;
            let is_same = fs::read(&copied.file).is_ok_and(|copy| copy == pem);
            ensure!(
                is_same,
                "{} is not the certificate of the CA of --ca-dir: pass that CA's directory, or remove the file so that it is copied",
                copied.file.display()
            );
            all.push(copied);
        }
        Ok(())
    }

    /// A file that only a CA from before can have made.
    fn signed(&self, leaves: &[Leaf<'_>]) -> anyhow::Result<Option<PathBuf>> {
        let mut files: Vec<_> = self.copies().collect();
        for leaf in leaves {
            files.extend(leaf.place.pair(leaf.name)?.into_iter().take(1));
        }
        for file in files {
            if is_there(&file)? {
                return Ok(Some(file));
            }
        }
        Ok(None)
    }
}

fn new_token(path: &Path) -> anyhow::Result<()> {
    secret::write(path, &secret::new()?)
}

fn taken(flag: &str, name: &str) -> String {
    format!("{flag}: the file of `{name}` belongs to something else: choose another name")
}
