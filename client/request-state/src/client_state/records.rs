//! Keys whose values are sealed.

use std::{sync::Arc, time::Duration};

use helve_client::{
    Client, Error, ErrorKind, KeyOptions, Keys, Owner, StateTool, StoreOutcome, Ttl, extend,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::seal::{Binding, Opened, Seal};

/// Sealed fields under places: the key of a field is `place/field`.
/// [`ClientState`](super::ClientState) uses them, and so do adapters for SDKs.
#[derive(Debug, Clone)]
pub struct SealedRecords {
    keys: Keys,
    tenant: Arc<str>,
    owner: Arc<str>,
    seal: Arc<Seal>,
}

impl SealedRecords {
    /// This owner's records, sealed for this tenant. Records that are not read or written for
    /// `idle_ttl` expire.
    #[must_use]
    pub fn new(
        client: &Client,
        tenant: &str,
        owner: &Owner,
        idle_ttl: Duration,
        seal: Arc<Seal>,
    ) -> Self {
        Self {
            keys: client.keys(KeyOptions::new(owner.clone()).idle_ttl(idle_ttl)),
            tenant: tenant.into(),
            owner: owner.name().unwrap_or_default().into(),
            seal,
        }
    }

    /// The field, opened, if it is there.
    ///
    /// # Errors
    /// [`Sealed`](ErrorKind::Sealed) if it does not open here, and those of every read.
    pub async fn retrieve(&self, place: &str, field: &str) -> Result<Option<Opened>, Error> {
        let record = self.keys.retrieve_record(&key(place, field)).await?;
        let Some(record) = record else {
            return Ok(None);
        };
        // What is no string was never sealed: it opens no better than an empty one.
        let sealed = record.value.as_str().unwrap_or_default();
        Ok(Some(Opened {
            plain: self.seal.open(sealed, &self.binding(place, field))?,
            info: record.info,
        }))
    }

    /// Seals and stores a field; answers its new revision. With `if_revision` only if the field has that one; 0: if there is no
    /// such field.
    ///
    /// # Errors
    /// [`Conflict`](ErrorKind::Conflict) if the revision is another one; [`Entropy`](ErrorKind::Entropy) if there is no
    /// randomness; and those of every write.
    pub async fn store(
        &self,
        place: &str,
        field: &str,
        plain: &[u8],
        ttl: Ttl,
        if_revision: Option<u64>,
    ) -> Result<u64, Error> {
        let value = self.sealed(place, field, plain)?;
        let key = key(place, field);
        match self.keys.write(&key, &value, ttl, if_revision).await? {
            StoreOutcome::Created(info) | StoreOutcome::Replaced(info) => Ok(info.revision),
            StoreOutcome::Conflict { .. } => Err(Error::internal("a conflict that is no error")),
        }
    }

    /// Deletes a field; true if there was one.
    ///
    /// # Errors
    /// Those of every write.
    pub async fn delete(&self, place: &str, field: &str) -> Result<bool, Error> {
        self.keys.remove(&key(place, field), None).await
    }

    pub(super) fn sealed(&self, place: &str, field: &str, plain: &[u8]) -> Result<Value, Error> {
        let sealed = self.seal.seal(plain, &self.binding(place, field))?;
        Ok(Value::from(sealed))
    }

    pub(super) fn keys(&self) -> &Keys {
        &self.keys
    }

    fn binding<'a>(&'a self, place: &'a str, field: &'a str) -> Binding<'a> {
        Binding {
            tenant: &self.tenant,
            owner: &self.owner,
            place,
            field,
        }
    }
}

/// The key of a field.
pub(super) fn key(place: &str, field: &str) -> String {
    format!("{place}/{field}")
}

/// Names as one path, from which they can be told again: what would end a name, and what no key may hold, is escaped as in a URL.
/// Each is given with what it is.
///
/// # Errors
/// [`Invalid`](ErrorKind::Invalid) if a name is empty.
pub(super) fn place(within: &str, names: &[(&str, &str)]) -> Result<String, Error> {
    let mut place = within.to_owned();
    for (what, name) in names {
        if name.is_empty() {
            let message = format!("the {what} of a client's state must not be empty");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        place.push('/');
        place.push_str(&escaped(name));
    }
    Ok(place)
}

fn escaped(name: &str) -> String {
    let mut escaped = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '%' => escaped.push_str("%25"),
            '/' => escaped.push_str("%2F"),
            '\0' => escaped.push_str("%00"),
            _ => escaped.push(c),
        }
    }
    escaped
}

/// Decodes what a sealed value holds.
///
/// # Errors
/// [`Codec`](ErrorKind::Codec) if it is of another form.
pub(super) fn decode<T: DeserializeOwned>(plain: &[u8]) -> Result<T, Error> {
    // The source of the error might quote the secret that it is about.
    extend::decode(plain).map_err(|_| {
        let message = "a sealed value is authentic, but not of the form that this version reads";
        Error::new(ErrorKind::Codec, message)
    })
}
