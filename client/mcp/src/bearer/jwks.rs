//! JWK sets (RFC 7517).

use helve_client::exact;
use serde::Deserialize;
use serde_json::Value;

use super::key::{Key, Origin};

/// Keys of one set. An issuer has two or three; more than this are not looked at.
const KEYS_MAX: usize = 256;
/// Characters of a key's id that are repeated in a log.
const SHOWN_CHARS_MAX: usize = 64;

#[derive(Deserialize)]
struct Set {
    keys: Vec<Value>,
}

/// What a set holds.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) keys: Vec<Key>,
    /// Entries that cannot be used, and why, for the log.
    pub(super) skipped: Vec<String>,
}

/// Reads a set. Entries of other kinds, and odd ones, are skipped: issuers add kinds of keys, and
/// the others must go on working.
pub(super) fn parse(content: &[u8], from: Origin) -> Result<Found, serde_json::Error> {
    let set: Set = exact::parse(content)?;
    let mut found = Found::default();
    for (at, entry) in set.keys.iter().enumerate() {
        let key = if at < KEYS_MAX {
            Key::of_jwk(entry, from)
        } else {
            Err("it is behind the first 256")
        };
        match key {
            Ok(key) => found.keys.push(key),
            Err(why) => found.skipped.push(skipped(at, entry, why)),
        }
        if at > KEYS_MAX {
            break;
        }
    }
    Ok(found)
}

fn skipped(at: usize, entry: &Value, why: &str) -> String {
    let id = entry.get("kid").and_then(Value::as_str).unwrap_or_default();
    let id: String = id.chars().take(SHOWN_CHARS_MAX).collect();
    format!("key {} (`kid` {id:?}): {why}", at + 1)
}
