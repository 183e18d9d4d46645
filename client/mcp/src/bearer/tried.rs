//! How many keys a token is tried against.

use super::key::Key;

/// Keys that one token is tried against: each costs a signature check.
pub(super) const TRIED_MAX: usize = 8;
/// Characters of a key's id that are repeated in an error.
const SHOWN_CHARS_MAX: usize = 64;

/// The keys, each once, however many sources of an issuer hold it.
pub(super) fn distinct<'a>(keys: &[&'a Key]) -> Vec<&'a Key> {
    let mut distinct: Vec<&'a Key> = Vec::new();
    for &key in keys {
        if !distinct.iter().any(|known| known.is_same(key)) {
            distinct.push(key);
        }
    }
    distinct
}

/// Refuses keys that are too much alike: a token names an id and an algorithm, and is tried against
/// the first of all keys with both. The others would never be used.
pub(super) fn check(keys: &[&Key]) -> Result<(), String> {
    let keys = distinct(keys);
    for key in &keys {
        let alike = |other: &&&Key| (&other.id, other.algorithm) == (&key.id, key.algorithm);
        let count = keys.iter().filter(alike).count();
        if count > TRIED_MAX {
            let id = match &key.id {
                Some(id) => {
                    let shown: String = id.chars().take(SHOWN_CHARS_MAX).collect();
                    format!("the `kid` {shown:?}")
                }
                None => "no `kid`".to_owned(),
            };
            return Err(format!(
                "{count} keys for {:?} have {id}, and a token is tried against {TRIED_MAX} at most: \
                 withdraw old ones, or give each a `kid` of its own in a JWK set",
                key.algorithm
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::bearer::key::Origin;

    /// Keys of these ids, as many of each.
    fn keys(ids: &[(Option<&str>, u8)]) -> Vec<Key> {
        let mut keys = Vec::new();
        for (id, count) in ids {
            for at in 1..=*count {
                let x = data_encoding::BASE64URL_NOPAD.encode(&[at; 32]);
                let mut jwk = json!({"kty": "OKP", "crv": "Ed25519", "x": x});
                if let Some(id) = id {
                    jwk["kid"] = json!(id);
                }
                keys.push(Key::of_jwk(&jwk, Origin::File).unwrap());
            }
        }
        keys
    }

    #[test]
    fn keys_of_one_id_beyond_those_tried_are_refused_by_it() {
        let checked = |ids: &[(Option<&str>, u8)]| {
            let keys = keys(ids);
            check(&keys.iter().collect::<Vec<_>>())
        };
        assert_eq!(
            checked(&[(Some("a"), 8), (Some("b"), 8), (None, 8)]),
            Ok(())
        );
        // The same eight keys, of two sources.
        assert_eq!(checked(&[(None, 8), (None, 8)]), Ok(()));
        let refused = checked(&[(Some("a"), 8), (Some("b"), 9)]).unwrap_err();
        assert!(
            refused.contains("9 keys for EdDSA have the `kid` \"b\""),
            "{refused}"
        );
        let refused = checked(&[(None, 9), (Some("b"), 1)]).unwrap_err();
        assert!(refused.contains("have no `kid`"), "{refused}");
    }
}
