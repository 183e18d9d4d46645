//! What a key ring holds, and how it may change.
//!
//! A key passes three phases. While it is *verifying*, every replica picks it up, and opens with
//! it, although no replica seals under it yet. Then it is *active*: it seals. The one before it is
//! *retiring*: replicas go on opening with it until the last state that it sealed has expired. So
//! whichever version of the ring a replica holds, as long as it is not older than [`PICK_UP_MAX`],
//! it opens what any other seals.

use std::time::Duration;

use data_encoding::BASE64;
use helve_client::{Error, ErrorKind};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::{
    bounds::STATE_TTL_MAX,
    key::OperatorKey,
    keys::{KeyId, SealingKey},
    primitives::{Key, NONCE_BYTES, base64, derive, from_base64, gcm_open, gcm_seal, random},
};

/// Within this time every replica that reaches the cluster has picked up a change of the ring.
pub const PICK_UP_MAX: Duration = Duration::from_secs(30);
/// Keys of a ring: more at once are an unfinished rotation.
const KEYS_MAX: usize = 16;
const PREFIX: &str = "r1.";
const DOMAIN: &[u8] = b"helve key ring r1";
const SALT_BYTES: usize = 12;

/// What a key of a ring is used for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeyPhase {
    /// It opens, and does not seal yet: replicas are picking it up.
    Verifying,
    /// It seals, and opens. Exactly one key of a ring is active.
    Active,
    /// It opens what it sealed while it was active, until that has expired.
    Retiring,
}

impl KeyPhase {
    /// The word that people and programs read: `verifying`, `active` or `retiring`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Verifying => "verifying",
            Self::Active => "active",
            Self::Retiring => "retiring",
        }
    }
}

/// What is known of a key of a ring, apart from the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RingKey {
    /// Its id, which the states that it sealed bear.
    pub id: KeyId,
    /// What it is used for.
    pub phase: KeyPhase,
    /// Since when it is in this phase, in milliseconds since the Unix epoch on the cluster's clock.
    pub since_ms: u64,
}

/// Whether the time that a phase must last is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// A change that some replica could not follow yet is refused.
    Wait,
    /// It is made at once: states may be refused that should hold. For a key that is known to others.
    Force,
}

/// All keys of a ring, in the order in which they were added. In the cluster it lies sealed under the operator's key.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ring {
    /// Counts changes, under the seal: an older ring is recognised by it even if it is written
    /// again.
    pub(super) generation: u64,
    keys: Vec<Member>,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Member {
    secret: Zeroizing<String>,
    phase: KeyPhase,
    since_ms: u64,
}

impl Member {
    fn key(&self) -> Result<SealingKey, Error> {
        let secret = BASE64.decode(self.secret.as_bytes());
        let secret = secret.map_err(|_| Error::internal("a key of the ring is no base64"))?;
        Ok(SealingKey::new(&OperatorKey::new(secret)?))
    }
}

fn refused(message: String) -> Error {
    Error::new(ErrorKind::Invalid, message)
}

impl Ring {
    pub(super) fn empty() -> Self {
        Self {
            generation: 0,
            keys: Vec::new(),
        }
    }

    /// The keys, and what is known of them.
    pub(super) fn keys(&self) -> Result<Vec<(RingKey, SealingKey)>, Error> {
        let known = |member: &Member| {
            let key = member.key()?;
            let known = RingKey {
                id: key.id(),
                phase: member.phase,
                since_ms: member.since_ms,
            };
            Ok((known, key))
        };
        self.keys.iter().map(known).collect()
    }

    /// Adds a key. The first of a ring seals at once: there is no other that replicas could hold.
    pub(super) fn add(&mut self, key: &OperatorKey, now_ms: u64) -> Result<(), Error> {
        if self.keys.len() >= KEYS_MAX {
            return Err(refused(format!(
                "the ring holds {KEYS_MAX} keys: remove retiring ones first"
            )));
        }
        let id = SealingKey::new(key).id();
        if self.keys()?.iter().any(|(known, _)| known.id == id) {
            return Err(refused(format!("key {id} is in the ring already")));
        }
        let phase = if self.keys.is_empty() {
            KeyPhase::Active
        } else {
            KeyPhase::Verifying
        };
        self.keys.push(Member {
            secret: Zeroizing::new(BASE64.encode(key.bytes())),
            phase,
            since_ms: now_ms,
        });
        self.generation += 1;
        Ok(())
    }

    /// Lets a key seal; the one that sealed so far retires.
    pub(super) fn activate(
        &mut self,
        id: KeyId,
        now_ms: u64,
        patience: Patience,
    ) -> Result<(), Error> {
        let at = self.position(id)?;
        let member = &self.keys[at];
        match member.phase {
            KeyPhase::Active => return Ok(()),
            // Every replica has held it since before it sealed.
            KeyPhase::Retiring => {}
            KeyPhase::Verifying => {
                let ready_ms = member.since_ms.saturating_add(millis(PICK_UP_MAX));
                wait_until(
                    ready_ms,
                    now_ms,
                    patience,
                    "replicas may not hold the key yet",
                )?;
            }
        }
        for member in &mut self.keys {
            if member.phase == KeyPhase::Active {
                (member.phase, member.since_ms) = (KeyPhase::Retiring, now_ms);
            }
        }
        let member = &mut self.keys[at];
        (member.phase, member.since_ms) = (KeyPhase::Active, now_ms);
        self.generation += 1;
        Ok(())
    }

    /// Forgets a key that does not seal. What it sealed is refused from then on.
    pub(super) fn remove(
        &mut self,
        id: KeyId,
        now_ms: u64,
        patience: Patience,
    ) -> Result<(), Error> {
        let at = self.position(id)?;
        let member = &self.keys[at];
        match member.phase {
            KeyPhase::Active => {
                return Err(refused(format!(
                    "key {id} seals: activate another one, then remove this"
                )));
            }
            KeyPhase::Verifying => {}
            KeyPhase::Retiring => {
                let last_ms = millis(PICK_UP_MAX) + millis(STATE_TTL_MAX);
                let done_ms = member.since_ms.saturating_add(last_ms);
                let why = "states that it sealed may still be redeemable";
                wait_until(done_ms, now_ms, patience, why)?;
            }
        }
        self.keys.remove(at);
        self.generation += 1;
        Ok(())
    }

    fn position(&self, id: KeyId) -> Result<usize, Error> {
        let keys = self.keys()?;
        let at = keys.iter().position(|(known, _)| known.id == id);
        at.ok_or_else(|| refused(format!("there is no key {id} in the ring")))
    }

    /// The ring as it lies in the cluster.
    pub(super) fn seal(&self, wrap: &Key, name: &str) -> Result<String, Error> {
        let plain =
            Zeroizing::new(serde_json::to_vec(self).expect("strings and numbers have a JSON form"));
        let salt: [u8; SALT_BYTES] = random()?;
        let nonce: [u8; NONCE_BYTES] = random()?;
        let one = derive(&**wrap, &[b"one ring", &salt]);
        let ciphertext = gcm_seal(&one, nonce, &associated(&salt, name), &plain);
        let blob = [&salt[..], &nonce, &ciphertext].concat();
        Ok(format!("{PREFIX}{}", base64(&blob)))
    }

    /// Of what lies in the cluster.
    pub(super) fn open(sealed: &str, wrap: &Key, name: &str) -> Result<Self, Error> {
        let opened = || {
            let blob = from_base64(sealed.strip_prefix(PREFIX)?)?;
            let (salt, rest) = blob.split_first_chunk::<SALT_BYTES>()?;
            let (nonce, ciphertext) = rest.split_first_chunk::<NONCE_BYTES>()?;
            let one = derive(&**wrap, &[b"one ring", salt]);
            let plain = gcm_open(&one, *nonce, &associated(salt, name), ciphertext)?;
            serde_json::from_slice(&plain).ok()
        };
        opened().ok_or_else(|| {
            refused(format!(
                "key ring `{name}` does not open under this operator key: give the key that it was made with"
            ))
        })
    }
}

/// A sealed ring opens under its own name alone.
fn associated(salt: &[u8], name: &str) -> Vec<u8> {
    [DOMAIN, salt, name.as_bytes()].concat()
}

/// The key that seals rings, of the operator's.
pub(super) fn wrapping(operator: &OperatorKey) -> Key {
    derive(operator.bytes(), &[DOMAIN])
}

fn wait_until(due_ms: u64, now_ms: u64, patience: Patience, why: &str) -> Result<(), Error> {
    if now_ms >= due_ms || patience == Patience::Force {
        return Ok(());
    }
    let seconds = (due_ms - now_ms).div_ceil(1000);
    Err(refused(format!(
        "{why}: try again in {seconds} s, or force it"
    )))
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phases(ring: &Ring) -> Vec<KeyPhase> {
        let keys = ring.keys().unwrap();
        keys.into_iter().map(|(known, _)| known.phase).collect()
    }

    fn ring_of(count: u8) -> (Ring, Vec<KeyId>) {
        let mut ring = Ring::empty();
        for key in 0..count {
            ring.add(&OperatorKey::new([key; 32]).unwrap(), 1000)
                .unwrap();
        }
        let ids = ring
            .keys()
            .unwrap()
            .iter()
            .map(|(known, _)| known.id)
            .collect();
        (ring, ids)
    }

    #[test]
    fn a_rotation_waits_for_the_replicas_and_for_what_was_sealed() {
        use KeyPhase::{Active, Retiring, Verifying};
        let (mut ring, ids) = ring_of(2);
        assert_eq!(phases(&ring), [Active, Verifying]);
        let wait = Patience::Wait;
        assert!(ring.activate(ids[1], 30_999, wait).is_err(), "too early");
        ring.activate(ids[1], 31_000, wait).unwrap();
        assert_eq!(phases(&ring), [Retiring, Active]);
        assert!(ring.remove(ids[1], u64::MAX, wait).is_err(), "it seals");
        let done_ms = 31_000 + 30_000 + 24 * 3600 * 1000;
        assert!(ring.remove(ids[0], done_ms - 1, wait).is_err(), "too early");
        assert_eq!(ring.generation, 3);
        ring.remove(ids[0], done_ms, wait).unwrap();
        assert_eq!((phases(&ring), ring.generation), (vec![Active], 4));
    }

    #[test]
    fn a_rotation_can_be_undone_and_forced() {
        use KeyPhase::{Active, Retiring};
        let (mut ring, ids) = ring_of(2);
        ring.activate(ids[1], 1000, Patience::Force).unwrap();
        ring.activate(ids[0], 1000, Patience::Wait).unwrap();
        assert_eq!(phases(&ring), [Active, Retiring]);
        ring.remove(ids[1], 1000, Patience::Force).unwrap();
        assert_eq!(phases(&ring), [Active]);
        assert!(ring.remove(ids[1], 1000, Patience::Force).is_err(), "gone");
    }

    #[test]
    fn a_ring_is_bounded_and_holds_no_key_twice() {
        let (mut ring, _) = ring_of(u8::try_from(KEYS_MAX).unwrap() - 1);
        let key = |key| OperatorKey::new([key; 32]).unwrap();
        assert!(ring.add(&key(0), 0).is_err(), "twice");
        ring.add(&key(200), 0).unwrap();
        assert!(ring.add(&key(201), 0).is_err(), "too many");
    }

    #[test]
    fn a_sealed_ring_opens_under_its_key_and_name_alone() {
        let (ring, _) = ring_of(2);
        let wrap = |key| wrapping(&OperatorKey::new([key; 32]).unwrap());
        let sealed = ring.seal(&wrap(1), "shop").unwrap();
        let opened = Ring::open(&sealed, &wrap(1), "shop").unwrap();
        assert_eq!(opened.keys().unwrap().len(), 2);
        assert!(Ring::open(&sealed, &wrap(2), "shop").is_err());
        assert!(Ring::open(&sealed, &wrap(1), "other").is_err());
        for at in 0..sealed.len() {
            let mut changed = sealed.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            assert!(Ring::open(&changed, &wrap(1), "shop").is_err(), "{at}");
        }
    }
}
