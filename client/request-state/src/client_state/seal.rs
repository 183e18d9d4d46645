//! Sealing what must not be read, changed or moved by who runs or reads the cluster.

use std::fmt;

use helve_client::{Error, ErrorKind};
use helve_proto::v1::RecordInfo;
use zeroize::Zeroizing;

use crate::state_codec::{
    OperatorKey,
    primitives::{
        Key, NONCE_BYTES, TAG_BYTES, base64, derive, from_base64, gcm_open, gcm_seal, random,
    },
};

/// What every sealed value begins with: the form's version.
const PREFIX: &str = "cs1.";
const KEY_ID_BYTES: usize = 8;

/// The keys that seal and open. AES-256-GCM under a key derived from the operator's; form, key id, tenant, owner, place and
/// field are under authentication, so that a value opens only where it was put.
///
/// A key may seal 2³² values (NIST SP 800-38D, for random nonces); rotate it before.
pub struct Seal {
    active: SealKey,
    others: Vec<SealKey>,
}

struct SealKey {
    id: [u8; KEY_ID_BYTES],
    key: Key,
}

impl SealKey {
    fn new(key: &OperatorKey) -> Self {
        let part = |info: &[u8]| derive(key.bytes(), &[b"helve client-state cs1 ", info]);
        let id = part(b"key id");
        Self {
            id: *id.first_chunk().expect("shorter than a digest"),
            key: part(b"seal"),
        }
    }
}

/// Where a value is sealed, and opens. All of it is bound.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Binding<'a> {
    pub(crate) tenant: &'a str,
    pub(crate) owner: &'a str,
    pub(crate) place: &'a str,
    pub(crate) field: &'a str,
}

impl Binding<'_> {
    /// No two bindings have the same bytes: each part says its length.
    fn associated(&self, key_id: [u8; KEY_ID_BYTES]) -> Vec<u8> {
        let mut bytes = PREFIX.as_bytes().to_vec();
        bytes.extend(key_id);
        for part in [self.tenant, self.owner, self.place, self.field] {
            bytes.extend((part.len() as u64).to_be_bytes());
            bytes.extend(part.as_bytes());
        }
        bytes
    }
}

impl Seal {
    /// Seals and opens under this key.
    #[must_use]
    pub fn new(key: &OperatorKey) -> Self {
        Self {
            active: SealKey::new(key),
            others: Vec::new(),
        }
    }

    /// Opens what was sealed under this key, too. To rotate, restart all processes with
    /// `[old, and_open(new)]`, then with `[new, and_open(old)]`; what was not stored again since is
    /// still under the old one.
    #[must_use]
    pub fn and_open(mut self, key: &OperatorKey) -> Self {
        self.others.push(SealKey::new(key));
        self
    }

    pub(crate) fn seal(&self, plain: &[u8], binding: &Binding<'_>) -> Result<String, Error> {
        let SealKey { id, key } = &self.active;
        let nonce = random::<NONCE_BYTES>()?;
        let mut sealed = [&id[..], &nonce].concat();
        sealed.extend(gcm_seal(key, nonce, &binding.associated(*id), plain));
        Ok(format!("{PREFIX}{}", base64(&sealed)))
    }

    pub(crate) fn open(
        &self,
        sealed: &str,
        binding: &Binding<'_>,
    ) -> Result<Zeroizing<Vec<u8>>, Error> {
        self.opened(sealed, binding).ok_or_else(|| {
            let message = format!(
                "{}/{} does not open: another key sealed it, or it was changed or moved; clear it, or give that key",
                binding.place, binding.field
            );
            Error::new(ErrorKind::Sealed, message)
        })
    }

    fn opened(&self, sealed: &str, binding: &Binding<'_>) -> Option<Zeroizing<Vec<u8>>> {
        let bytes = from_base64(sealed.strip_prefix(PREFIX)?)?;
        let (id, rest) = bytes.split_first_chunk::<KEY_ID_BYTES>()?;
        let (nonce, body) = rest.split_first_chunk::<NONCE_BYTES>()?;
        if body.len() < TAG_BYTES {
            return None;
        }
        let mut keys = [&self.active].into_iter().chain(&self.others);
        let SealKey { key, .. } = keys.find(|key| key.id == *id)?;
        gcm_open(key, *nonce, &binding.associated(*id), body)
    }
}

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seal").finish_non_exhaustive()
    }
}

/// What was sealed, opened.
pub struct Opened {
    /// The bytes; wiped from memory when dropped.
    pub plain: Zeroizing<Vec<u8>>,
    /// Revision and times of the key.
    pub info: RecordInfo,
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened")
            .field("info", &self.info)
            .finish_non_exhaustive()
    }
}
