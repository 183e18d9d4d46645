//! Opening the values of a reply.

use bytes::Bytes;
use helve_proto::{operations::CallReply, v1::RecordInfo};
use helve_seal::{KeyId, Place};

use super::{
    Vault, hex,
    seal::{HANDLE, KEY},
};

/// Why a value is not handed out. It is never handed out as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// This node lacks its key.
    #[error("the value of `{name}` is sealed under key {key_id}, which this node does not hold")]
    NoKey {
        /// Whose value it is.
        name: String,
        /// The key.
        key_id: String,
    },
    /// It is not sealed, where every value is.
    #[error(
        "the value of `{name}` is not sealed, and every value of this cluster is: it was put on this node's disk by something else"
    )]
    Plain {
        /// Whose value it is.
        name: String,
    },
    /// It is not what was sealed for this record.
    #[error(
        "the value of `{name}` does not open under key {key_id}: it was damaged, changed, or moved here from another record"
    )]
    Damaged {
        /// Whose value it is.
        name: String,
        /// The key.
        key_id: String,
    },
}

/// Whether a reply was asked to hold values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// It was.
    Values,
    /// Names and times only.
    Names,
}

impl Vault {
    /// Refuses values of a reply that are not sealed, once all are. `index` is where in the log the reply was made: what was taken before
    /// that, and is kept for a retry, may be plain.
    ///
    /// # Errors
    /// [`OpenError::Plain`].
    pub fn refuse_plain(
        &self,
        reply: &mut impl CallReply,
        asked: impl Fn(usize) -> Asked,
        index: u64,
    ) -> Result<(), OpenError> {
        if !self.expects_sealed(index) {
            return Ok(());
        }
        reply.records_mut(&mut |at, info, value| match value {
            Some(_) if info.sealed_under.is_empty() && asked(at) == Asked::Values => {
                Err(self.plain(&info.name))
            }
            _ => Ok(()),
        })
    }

    /// Whether every record is sealed at this index of the log, as far as this node knows.
    fn expects_sealed(&self, index: u64) -> bool {
        let known = self.known.load();
        let row = known.row.as_ref();
        row.is_some_and(|row| row.complete_index > 0 && index >= row.complete_index)
    }

    /// A value that is plain where none may be.
    pub(super) fn plain(&self, name: &str) -> OpenError {
        tracing::error!(
            name,
            "a value on this node's disk is not sealed, and all values are: replace the node's disk"
        );
        OpenError::Plain {
            name: name.to_owned(),
        }
    }

    /// Opens every value of a reply. Of each of the request's targets, `asked` says whether its value is handed out, and `store` in
    /// which store it lies; `None`: it is a key.
    ///
    /// # Errors
    /// See [`OpenError`]; what was opened until then must not be handed out.
    pub fn open<'a>(
        &self,
        reply: &mut impl CallReply,
        asked: impl Fn(usize) -> Asked,
        tenant: &str,
        store: impl Fn(usize) -> Option<&'a str>,
    ) -> Result<(), OpenError> {
        reply.records_mut(&mut |at, info, value| {
            let key_id = std::mem::take(&mut info.sealed_under);
            match value {
                Some(value) if !key_id.is_empty() && asked(at) == Asked::Values => {
                    *value = self.opened(&key_id, tenant, store(at), info, value)?;
                    Ok(())
                }
                _ => Ok(()),
            }
        })
    }

    fn opened(
        &self,
        key_id: &[u8],
        tenant: &str,
        store: Option<&str>,
        info: &RecordInfo,
        sealed: &[u8],
    ) -> Result<Bytes, OpenError> {
        let (owner, name) = (info.owner.as_str(), info.name.as_str());
        match store {
            Some(store) => self.value(key_id, HANDLE, &[tenant, store, owner, name], sealed),
            None => self.value(key_id, KEY, &[tenant, owner, name], sealed),
        }
    }

    /// A value at its place, whose last part is its name.
    pub(super) fn value(
        &self,
        key_id: &[u8],
        kind: &str,
        parts: &[&str],
        sealed: &[u8],
    ) -> Result<Bytes, OpenError> {
        let name = || {
            parts
                .last()
                .map_or(String::new(), |name| (*name).to_owned())
        };
        let ring = self.ring.load();
        let key = KeyId::from_bytes(key_id).and_then(|id| ring.find(id));
        let key = key.ok_or_else(|| OpenError::NoKey {
            name: name(),
            key_id: hex(key_id),
        })?;
        let mut plain =
            key.open(&Place { kind, parts }, sealed)
                .ok_or_else(|| OpenError::Damaged {
                    name: name(),
                    key_id: hex(key_id),
                })?;
        Ok(std::mem::take(&mut *plain).into())
    }
}
