//! Whom tokens may come from, and what their subjects own.

use std::{path::Path, sync::Arc};

use super::{
    key::Key,
    key_file::{KeyFileError, Said},
    owner::OWNER_BYTES_MAX,
    rejected::Rejected,
    source::{KeySource, KeysError, Source},
    tried,
};

/// How the owner begins that names an issuer. No subject begins so.
pub(super) const QUALIFIED: &str = "iss:";

/// What the owners of an issuer's subjects look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owners {
    /// The subject itself: for the one issuer, or the one whose subjects have owned handles since
    /// before there were others.
    Plain,
    /// `iss:`, the issuer, a space and the subject. An issuer has no space in it, so that the first
    /// one ends it, whatever is in the subject.
    Qualified,
}

/// An issuer that is trusted, and where its keys are.
#[derive(Debug, Clone)]
pub struct Trusted {
    /// What its tokens say in `iss`, byte for byte; `None`: any, or nothing. That is for a single
    /// issuer alone.
    pub issuer: Option<String>,
    /// Where its keys are; a token is checked with these and no others.
    pub keys: Vec<KeySource>,
    /// What its subjects own.
    pub owners: Owners,
}

/// Why issuers cannot be trusted side by side, or one not at all. The server must not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// There are no keys, or they cannot be used.
    #[error(transparent)]
    Keys(#[from] KeysError),
    /// An issuer has no keys, or there is no issuer.
    #[error("no keys are named for {0}: no token could hold")]
    NoKeys(String),
    /// One of several has no name, so that a subject could be another's.
    #[error(
        "several issuers are trusted, and one has no name: two subjects of the same name would own \
         the same"
    )]
    Unnamed,
    /// The name of an issuer is empty, has white space or control characters, or comes twice.
    #[error("the issuer {0:?} is empty, has a space or a control character, or is named twice")]
    Name(String),
    /// Its files and URLs together hold keys of which a token would have to be tried against too
    /// many.
    #[error("the keys of one issuer are refused: {0}")]
    Alike(String),
    /// The subjects of two issuers would be the same owners.
    #[error("the subjects of several issuers keep plain names: only one issuer's can")]
    SeveralPlain,
}

/// An issuer with its keys.
#[derive(Debug)]
pub(super) struct Issuer {
    pub(super) name: Option<Arc<str>>,
    pub(super) sources: Vec<Arc<Source>>,
    owners: Owners,
}

impl Issuer {
    /// One that is alone, with the keys of one file.
    pub(super) fn only(
        key_file: &Path,
        said: Said,
        name: Option<String>,
    ) -> Result<Self, KeyFileError> {
        Ok(Self {
            name: name.map(Into::into),
            sources: vec![Source::of_file(key_file, said)?],
            owners: Owners::Plain,
        })
    }

    /// One that is alone, with these sources.
    #[cfg(test)]
    pub(super) fn of_sources(sources: Vec<Arc<Source>>) -> Self {
        Self {
            name: None,
            sources,
            owners: Owners::Plain,
        }
    }

    async fn open(trusted: Trusted) -> Result<Self, TrustError> {
        let mut sources = Vec::new();
        for from in trusted.keys {
            sources.push(Source::open(from).await?);
        }
        let known: Vec<_> = sources.iter().filter_map(|source| source.keys()).collect();
        let all: Vec<&Key> = known.iter().flat_map(|keys| keys.iter()).collect();
        tried::check(&all).map_err(TrustError::Alike)?;
        Source::join(&sources);
        Ok(Self {
            name: trusted.issuer.map(Into::into),
            sources,
            owners: trusted.owners,
        })
    }

    /// Reads the keys of all.
    pub(super) async fn open_all(trusted: Vec<Trusted>) -> Result<Vec<Self>, TrustError> {
        check(&trusted)?;
        let mut issuers = Vec::new();
        for one in trusted {
            issuers.push(Self::open(one).await?);
        }
        Ok(issuers)
    }

    /// Who owns what this subject stores.
    pub(super) fn owner(&self, subject: &str) -> Result<String, Rejected> {
        // The reserved form is refused of every issuer, and of a single one: another may come.
        if subject.is_empty() || subject.starts_with(QUALIFIED) {
            return Err(Rejected::Subject);
        }
        let owner = match (self.owners, &self.name) {
            (Owners::Qualified, Some(issuer)) => format!("{QUALIFIED}{issuer} {subject}"),
            _ => subject.to_owned(),
        };
        if owner.len() > OWNER_BYTES_MAX {
            return Err(Rejected::Subject);
        }
        Ok(owner)
    }
}

fn check(trusted: &[Trusted]) -> Result<(), TrustError> {
    if trusted.is_empty() {
        return Err(TrustError::NoKeys("any issuer".to_owned()));
    }
    let mut names = Vec::new();
    for one in trusted {
        let Some(name) = &one.issuer else {
            if trusted.len() > 1 || one.owners == Owners::Qualified {
                return Err(TrustError::Unnamed);
            }
            continue;
        };
        let is_odd = |character: char| character.is_whitespace() || character.is_control();
        if name.is_empty() || name.contains(is_odd) || names.contains(&name) {
            return Err(TrustError::Name(name.clone()));
        }
        names.push(name);
    }
    if let Some(bare) = trusted.iter().find(|one| one.keys.is_empty()) {
        let name = bare.issuer.as_deref().unwrap_or("any issuer");
        return Err(TrustError::NoKeys(name.to_owned()));
    }
    let plain = trusted.iter().filter(|one| one.owners == Owners::Plain);
    if plain.count() > 1 {
        return Err(TrustError::SeveralPlain);
    }
    Ok(())
}
