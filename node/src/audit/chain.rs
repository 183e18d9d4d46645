//! The chain of hashes: each line carries the hash over the line before and itself, so that a line that is removed, changed or moved
//! shows.
//!
//! ```text
//! {"seq":8,...,"hash":"H8"}     H8 = hash(domain, H7, `{"seq":8,...`)
//! ```
//!
//! The hash covers the bytes of the line in front of `,"hash":`. It is SHA-256 (FIPS 180-4); or,
//! with a key, HMAC-SHA-256 (RFC 2104), which cannot be computed again after a change without the
//! key.

use std::{fmt, str::FromStr};

use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};

use super::key::AuditKey;

/// What every hash begins with, so that none is one of anything else.
const DOMAIN: &[u8] = b"helve audit 1\n";
/// In front of the hash in a line.
const MARK: &[u8] = b",\"hash\":\"";
/// Behind it.
const END: &[u8] = b"\"}";
const HASH_BYTES: usize = 32;

/// A hash of the chain.
pub(super) type Hash = [u8; HASH_BYTES];

/// The last line of a chain so far: what it is extended from, and what a truncated log is known by. Written as `SEQ:HASH`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Head {
    /// The line's number; 0: there is none yet.
    pub seq: u64,
    /// The line's hash; zeros if there is none yet.
    pub hash: Hash,
}

impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.seq, hex(&self.hash))
    }
}

impl FromStr for Head {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once(':').and_then(|(seq, hash)| {
            Some(Self {
                seq: seq.parse().ok()?,
                hash: from_hex(hash.as_bytes())?,
            })
        });
        parsed.ok_or_else(|| {
            format!("`{text}` is no head of an audit log: write SEQ:HASH, as `helve audit verify` prints it")
        })
    }
}

/// How a chain is hashed. Cheap to clone.
#[derive(Clone)]
pub(super) enum Seal {
    /// Anyone can check it, and a writer of the file can make a new rest of the chain.
    Plain,
    /// Only who has the key can do either.
    Keyed(Hmac<Sha256>),
}

impl Seal {
    /// With this key, if there is one.
    pub(super) fn new(key: Option<&AuditKey>) -> Self {
        key.map_or(Self::Plain, |key| Self::Keyed(keyed(key.bytes())))
    }

    /// Its name in the first line of a file.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Plain => "sha256",
            Self::Keyed(_) => "hmac-sha256",
        }
    }

    fn hash(&self, before: &Hash, body: &[u8]) -> Hash {
        let parts = [DOMAIN, before, body];
        match self {
            Self::Plain => {
                let mut digest = Sha256::new();
                parts.iter().for_each(|part| digest.update(part));
                digest.finalize().into()
            }
            Self::Keyed(mac) => {
                let mut mac = mac.clone();
                parts.iter().for_each(|part| mac.update(part));
                mac.finalize().into_bytes().into()
            }
        }
    }

    /// Ends a line, which is its JSON without the closing brace, and extends the chain by it.
    pub(super) fn end(&self, head: &mut Head, line: &mut Vec<u8>) {
        head.hash = self.hash(&head.hash, line);
        head.seq += 1;
        line.extend_from_slice(MARK);
        line.extend_from_slice(hex(&head.hash).as_bytes());
        line.extend_from_slice(END);
        line.push(b'\n');
    }

    /// Whether a line extends the chain.
    pub(super) fn holds(&self, before: &Hash, line: &SealedLine<'_>) -> bool {
        self.hash(before, line.body) == line.hash
    }
}

/// A line with its hash, without its end.
#[derive(Debug, Clone, Copy)]
pub(super) struct SealedLine<'a> {
    body: &'a [u8],
    /// The hash that it carries.
    pub(super) hash: Hash,
}

impl<'a> SealedLine<'a> {
    /// Takes a line apart; `None` if it does not end in a hash.
    pub(super) fn of(line: &'a [u8]) -> Option<Self> {
        let rest = line.strip_suffix(END)?;
        let (rest, hash) = rest.split_at_checked(rest.len().checked_sub(2 * HASH_BYTES)?)?;
        Some(Self {
            body: rest.strip_suffix(MARK)?,
            hash: from_hex(hash)?,
        })
    }
}

/// HMAC-SHA-256 with this key.
pub(super) fn keyed(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("HMAC takes a key of any length")
}

/// In lower-case hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    HEXLOWER.encode(bytes)
}

fn from_hex(text: &[u8]) -> Option<Hash> {
    HEXLOWER.decode(text).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(seal: &Seal, bodies: &[&str]) -> Vec<Vec<u8>> {
        let mut head = Head::default();
        let end = |body: &&str| {
            let mut line = body.as_bytes().to_vec();
            seal.end(&mut head, &mut line);
            line
        };
        bodies.iter().map(end).collect()
    }

    #[test]
    fn a_line_holds_only_behind_the_line_before_it_and_under_its_own_key() {
        let key = AuditKey::for_tests(7);
        for seal in [Seal::Plain, Seal::new(Some(&key))] {
            let lines = sealed(&seal, &["{\"a\":1", "{\"a\":2"]);
            let read = |line: &Vec<u8>| SealedLine::of(line.trim_ascii_end()).unwrap().hash;
            let (first, second) = (read(&lines[0]), lines[1].trim_ascii_end());
            let line = SealedLine::of(second).unwrap();
            assert!(seal.holds(&first, &line));
            assert!(!seal.holds(&[0; 32], &line), "it is elsewhere");
            let other = Seal::new(Some(&AuditKey::for_tests(8)));
            assert!(!other.holds(&first, &line), "another key");
            let changed = String::from_utf8(second.to_vec()).unwrap();
            let changed = changed.replace("{\"a\":2", "{\"a\":3");
            assert!(!seal.holds(&first, &SealedLine::of(changed.as_bytes()).unwrap()));
        }
    }

    #[test]
    fn what_does_not_end_in_a_hash_is_no_line() {
        let whole = sealed(&Seal::Plain, &["{\"a\":1"]).remove(0);
        let whole = whole.trim_ascii_end();
        assert!(SealedLine::of(whole).is_some());
        for cut in 0..whole.len() {
            assert!(SealedLine::of(&whole[..cut]).is_none(), "cut at {cut}");
        }
        for text in ["", "{}", "\"}", ",\"hash\":\"\"}"] {
            assert!(SealedLine::of(text.as_bytes()).is_none(), "{text}");
        }
    }

    #[test]
    fn a_head_reads_as_it_is_written() {
        let head = Head {
            seq: 17,
            hash: [0xab; 32],
        };
        assert_eq!(head.to_string().parse(), Ok(head));
        for text in ["", "17", "17:", "17:ab", "x:00", ":"] {
            assert!(text.parse::<Head>().is_err(), "{text}");
        }
    }
}
