//! How owners, ids and keys are written in the log: as they are, or hashed, so that the log can be given to people who may not know them.

use hmac::{Hmac, Mac as _};
use serde::Serialize;
use sha2::Sha256;

use super::{
    chain::{hex, keyed},
    event::Target,
    key::AuditKey,
};

/// Bytes of a hashed name: enough that no two names of a log meet by chance.
const NAME_HASH_BYTES: usize = 16;
/// In front of each name that is hashed, so that no such hash is one of the chain under the same key.
const DOMAIN: &[u8] = b"name:";

/// How an operator wants to see names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Ids {
    /// As they are.
    #[default]
    Plain,
    /// HMAC-SHA-256 of `name:` and the name, the first 16 bytes in hexadecimal: under the
    /// operator's key if there is one; else under a salt that the log states, which hides no name
    /// from a person who can guess it.
    Hash,
}

/// What names are written as.
pub(super) struct Names(Option<Hmac<Sha256>>);

impl Names {
    /// With the key if there is one, else with the salt.
    pub(super) fn new(ids: Ids, key: Option<&AuditKey>, salt: &[u8]) -> Self {
        Self(match ids {
            Ids::Plain => None,
            Ids::Hash => Some(key.map_or_else(|| keyed(salt), |key| keyed(key.bytes()))),
        })
    }

    /// Rewrites what a target says of its record. Stores are part of a program, not of what its users do: they stay.
    pub(super) fn rewrite(&self, target: &mut Target) {
        let Some(mac) = &self.0 else { return };
        let names = [
            &mut target.owner,
            &mut target.id,
            &mut target.key,
            &mut target.prefix,
        ];
        // An empty name is none.
        let names = names.into_iter().flatten().filter(|name| !name.is_empty());
        for name in names {
            let mut mac = mac.clone();
            mac.update(DOMAIN);
            mac.update(name.as_bytes());
            *name = hex(&mac.finalize().into_bytes()[..NAME_HASH_BYTES]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(ids: Ids, key: Option<&AuditKey>, salt: &[u8]) -> Target {
        let mut target = Target {
            store: Some("carts".into()),
            owner: Some("ann".into()),
            id: Some("cart-1".into()),
            key: Some(String::new()),
            ..Target::default()
        };
        Names::new(ids, key, salt).rewrite(&mut target);
        target
    }

    #[test]
    fn hashed_names_show_nothing_and_differ_by_salt_or_key() {
        let plain = rewritten(Ids::Plain, None, b"salt");
        assert_eq!(plain.id.as_deref(), Some("cart-1"));
        let one = rewritten(Ids::Hash, None, b"salt");
        assert_eq!(one, rewritten(Ids::Hash, None, b"salt"));
        assert_eq!(one.store, plain.store);
        assert_eq!(one.key.as_deref(), Some(""), "an empty name is none");
        let text = format!("{one:?}");
        assert!(!text.contains("ann") && !text.contains("cart-1"), "{text}");
        assert_ne!(one.id, rewritten(Ids::Hash, None, b"pepper").id);
        let key = AuditKey::for_tests(1);
        let keyed = rewritten(Ids::Hash, Some(&key), b"salt");
        assert_ne!(one.id, keyed.id);
        assert_eq!(keyed, rewritten(Ids::Hash, Some(&key), b"pepper"));
    }
}
