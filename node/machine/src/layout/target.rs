//! The part of a key that names a record.

use bytes::Bytes;

use crate::{
    fault::Fault,
    planted::{self, Plant},
};

/// Handle or key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Handle,
    Key,
}

/// Which record: its kind, and its own part of the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) kind: Kind,
    pub(crate) path: Bytes,
}

/// A name does not fit a key. Checked commands never have one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unfit;

impl Target {
    pub(crate) fn handle(store: &str, owner: &str, id: &str) -> Result<Self, Unfit> {
        let mut path = Vec::with_capacity(1 + store.len() + 2 + owner.len() + id.len());
        push_store(&mut path, store)?;
        push_owner(&mut path, owner)?;
        path.extend_from_slice(id.as_bytes());
        Ok(Self {
            kind: Kind::Handle,
            path: path.into(),
        })
    }

    pub(crate) fn key(owner: &str, key: &str) -> Result<Self, Unfit> {
        let mut path = Vec::with_capacity(2 + owner.len() + key.len());
        push_owner(&mut path, owner)?;
        path.extend_from_slice(key.as_bytes());
        Ok(Self {
            kind: Kind::Key,
            path: path.into(),
        })
    }

    /// The parts of a handle's path that name its store, and its store and owner.
    pub(crate) fn store_and_owner(&self) -> Result<(&[u8], &[u8]), Fault> {
        let (store_end, owner_end) =
            ends(&self.path).ok_or(Fault::Corrupt("a handle's key is too short"))?;
        Ok((&self.path[..store_end], &self.path[..owner_end]))
    }
}

/// A store's part of a handle's path.
pub(crate) fn store_path(store: &str) -> Result<Vec<u8>, Unfit> {
    let mut path = Vec::with_capacity(1 + store.len());
    push_store(&mut path, store)?;
    Ok(path)
}

fn push_store(path: &mut Vec<u8>, store: &str) -> Result<(), Unfit> {
    path.push(u8::try_from(store.len()).map_err(|_| Unfit)?);
    path.extend_from_slice(store.as_bytes());
    Ok(())
}

/// An owner's part of a key's path.
pub(crate) fn owner_path(owner: &str) -> Result<Vec<u8>, Unfit> {
    let mut path = Vec::with_capacity(2 + owner.len());
    push_owner(&mut path, owner)?;
    Ok(path)
}

/// A principal's part of a key.
pub(crate) fn principal_path(principal: &str) -> Result<Bytes, Unfit> {
    let length = u16::try_from(principal.len()).map_err(|_| Unfit)?;
    Ok([&length.to_be_bytes(), principal.as_bytes()]
        .concat()
        .into())
}

pub(crate) fn push_owner(path: &mut Vec<u8>, owner: &str) -> Result<(), Unfit> {
    let is_left_out = !owner.is_empty() && planted::is(Plant::OwnerNotInKey);
    let owner = if is_left_out { "" } else { owner };
    let length = u16::try_from(owner.len()).map_err(|_| Unfit)?;
    path.extend_from_slice(&length.to_be_bytes());
    path.extend_from_slice(owner.as_bytes());
    Ok(())
}

/// Splits a part of a path that begins with an owner: the owner, and the rest.
pub(crate) fn split_owner(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = path.split_first_chunk::<2>()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))
}

/// Splits a handle's path: the store, and the rest.
pub(crate) fn split_store(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = path.split_first()?;
    rest.split_at_checked(usize::from(*length))
}

/// Where store and owner of a handle's path end.
fn ends(path: &[u8]) -> Option<(usize, usize)> {
    let store_end = 1 + usize::from(*path.first()?);
    let (owner, _) = split_owner(path.get(store_end..)?)?;
    Some((store_end, store_end + 2 + owner.len()))
}
