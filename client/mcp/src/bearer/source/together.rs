//! The sources of one issuer, whose keys a token is tried against together.

use std::sync::{Arc, Mutex, Weak};

use super::Source;
use crate::bearer::{key::Key, tried};

/// What a source knows of the other sources of its issuer.
#[derive(Debug, Default)]
pub(super) struct Together {
    others: Mutex<Vec<Weak<Source>>>,
    /// What was last said to be wrong with the keys of all, so that it is said once.
    said: Mutex<String>,
}

impl Source {
    /// Makes sources those of one issuer: each then warns if its new keys are too many together with
    /// those of the others.
    pub(crate) fn join(sources: &[Arc<Self>]) {
        for source in sources {
            let others = sources.iter().filter(|other| !Arc::ptr_eq(other, source));
            *source.lock(&source.together.others) = others.map(Arc::downgrade).collect();
        }
    }

    /// Warns if some of the issuer's keys are never tried. The server runs, and goes on: only tokens
    /// under those keys are refused.
    pub(super) fn check_together(&self) {
        let others = self.lock(&self.together.others).clone();
        let others = others.iter().filter_map(Weak::upgrade);
        let mut known: Vec<Arc<[Key]>> = others
            .map(|source| Arc::clone(&source.known.load().keys))
            .collect();
        known.push(Arc::clone(&self.known.load().keys));
        let all: Vec<&Key> = known.iter().flat_map(|keys| keys.iter()).collect();
        let problem = tried::check(&all).err().unwrap_or_default();
        let mut said = self.lock(&self.together.said);
        if *said != problem && !problem.is_empty() {
            tracing::warn!(
                from = %self.name(),
                %problem,
                "with new keys, the files and URLs of one issuer together hold keys that are not used"
            );
        }
        *said = problem;
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, ops::RangeInclusive};

    use serde_json::json;

    use crate::bearer::{
        issuer::{Issuer, Owners, Trusted},
        source::KeySource,
    };

    /// A set with one key for each number, none of which has an id.
    fn set(numbers: RangeInclusive<u8>) -> String {
        let key = |number: u8| {
            let x = data_encoding::BASE64URL_NOPAD.encode(&[number; 32]);
            json!({"kty": "OKP", "crv": "Ed25519", "x": x})
        };
        let keys: Vec<_> = numbers.map(key).collect();
        json!({ "keys": keys }).to_string()
    }

    #[tokio::test]
    async fn rotation_to_too_many_keys_is_said_at_the_refresh() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::write(path("a"), set(1..=4)).unwrap();
        fs::write(path("b"), set(5..=8)).unwrap();
        let trusted = Trusted {
            issuer: None,
            keys: vec![KeySource::File(path("a")), KeySource::File(path("b"))],
            owners: Owners::Plain,
        };
        let issuers = Issuer::open_all(vec![trusted]).await.unwrap();
        let [_, changed] = &issuers[0].sources[..] else {
            panic!("not two sources")
        };
        // Keys that both files hold count once.
        for (keys, said) in [(5..=9, "9 keys"), (1..=8, ""), (4..=9, "9 keys")] {
            fs::write(path("b"), set(keys)).unwrap();
            changed.read_now().await.unwrap().outcome.unwrap();
            let problem = changed.lock(&changed.together.said).clone();
            assert!(problem.starts_with(said), "{problem}");
            assert_eq!(problem.is_empty(), said.is_empty(), "{problem}");
        }
    }
}
