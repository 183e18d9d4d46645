//! Objects by their keys, and what the store's errors mean.

use std::future;

use futures::{StreamExt as _, TryStreamExt as _};
use helve_client::{Error, ErrorKind};
use helve_proto::Reason;
use object_store::{
    ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, UpdateVersion, aws::AmazonS3, path::Path,
};

use crate::{
    limits::{KEY_BYTES_MAX, LIST_KEYS_MAX},
    tools::{
        bounds::over_long,
        failures::{ambiguous, unavailable},
        names,
        row::{self, Row},
    },
};

pub(super) struct Objects {
    store: AmazonS3,
}

/// What a conditional put did.
pub(super) enum Put {
    Done,
    /// Another writer was first; nothing was written.
    Overtaken,
}

impl Objects {
    pub(super) fn new(store: AmazonS3) -> Self {
        Self { store }
    }

    /// The row with the tag that tells it from any other.
    pub(super) async fn get(&self, key: &str) -> Result<Option<(Row, UpdateVersion)>, Error> {
        let path = path(key)?;
        let object = match self.store.get(&path).await {
            Ok(object) => object,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(refusal(error, unavailable)),
        };
        let tag = UpdateVersion {
            e_tag: object.meta.e_tag.clone(),
            version: object.meta.version.clone(),
        };
        let json = object
            .bytes()
            .await
            .map_err(|error| refusal(error, unavailable))?;
        let row: Row = row::read(&json).map_err(|error| {
            let message = format!("the object {path} holds no row of this tool: {error}");
            Error::new(ErrorKind::Codec, message).with_source(error)
        })?;
        if row.key != key {
            let message = format!("the object {path} holds the key {:?}", row.key);
            return Err(Error::new(ErrorKind::Codec, message));
        }
        Ok(Some((row, tag)))
    }

    pub(super) async fn exists(&self, key: &str) -> Result<bool, Error> {
        match self.store.head(&path(key)?).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(refusal(error, unavailable)),
        }
    }

    /// Replaces what has the tag; without one, what is absent.
    pub(super) async fn put(&self, row: &Row, tag: Option<UpdateVersion>) -> Result<Put, Error> {
        let path = path(&row.key)?;
        let json = serde_json::to_vec(row).map_err(|error| {
            Error::new(ErrorKind::Codec, "the value has no JSON form").with_source(error)
        })?;
        let options = PutOptions {
            mode: tag.map_or(PutMode::Create, PutMode::Update),
            ..PutOptions::default()
        };
        let Err(error) = self.store.put_opts(&path, json.into(), options).await else {
            return Ok(Put::Done);
        };
        let is_overtaken = matches!(
            error,
            object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }
        );
        let refused = refusal(error, ambiguous);
        if !is_overtaken && refused.kind() != ErrorKind::Ambiguous {
            return Err(refused);
        }
        // A put that was sent again by the client below meets itself.
        match self.get(&row.key).await {
            Ok(Some((found, _))) if found.write == row.write => Ok(Put::Done),
            Ok(_) if is_overtaken => Ok(Put::Overtaken),
            Ok(_) | Err(_) => Err(refused),
        }
    }

    pub(super) async fn delete(&self, key: &str) -> Result<(), Error> {
        match self.store.delete(&path(key)?).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(refusal(error, ambiguous)),
        }
    }

    /// All keys with the prefix, in order. Objects that are no key's are passed over.
    pub(super) async fn keys(&self, prefix: &str) -> Result<Vec<String>, Error> {
        let directory = names::directory(prefix)
            .map(|path| parse(&path))
            .transpose()?;
        let key = |object: object_store::ObjectMeta| {
            let key = names::key(object.location.as_ref());
            future::ready(Ok(key.filter(|key| key.starts_with(prefix))))
        };
        let listed = self.store.list(directory.as_ref()).try_filter_map(key);
        let listed = listed.take(LIST_KEYS_MAX + 1);
        let mut keys: Vec<String> = Box::pin(listed)
            .try_collect()
            .await
            .map_err(|error| refusal(error, unavailable))?;
        if keys.len() > LIST_KEYS_MAX {
            return Err(over_long());
        }
        keys.sort_unstable();
        Ok(keys)
    }
}

fn path(key: &str) -> Result<Path, Error> {
    let path = names::path(key);
    if path.len() > KEY_BYTES_MAX {
        let message = format!(
            "a key that has {} bytes with its escapes, and {KEY_BYTES_MAX} are allowed",
            path.len()
        );
        return Err(Error::refused(Reason::BadKey, message, 0, 0));
    }
    parse(&path)
}

fn parse(path: &str) -> Result<Path, Error> {
    Path::parse(path).map_err(|error| Error::internal("an object's path").with_source(error))
}

/// `lost` says what an answer that never came means.
fn refusal(error: object_store::Error, lost: fn(&str, object_store::Error) -> Error) -> Error {
    use object_store::Error as Store;
    let refused = |kind, message: &str, error: Store| {
        Error::new(kind, format!("S3: {message}: {error}")).with_source(error)
    };
    match error {
        Store::PermissionDenied { .. } | Store::Unauthenticated { .. } => {
            refused(ErrorKind::Denied, "not allowed", error)
        }
        Store::NotImplemented { .. } | Store::NotSupported { .. } => {
            refused(ErrorKind::Unsupported, "the service lacks this", error)
        }
        // Of a bucket: a key that is absent was looked at before.
        Store::NotFound { .. } => refused(ErrorKind::Unavailable, "no such bucket", error),
        _ => lost("S3 answered nothing that helps", error),
    }
}
