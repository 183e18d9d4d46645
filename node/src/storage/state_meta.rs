//! What the state database says of itself: its format, and as of which entry its rows are.

use std::sync::Arc;

use helve_proto::peer::v1::{LogId, StoredMembership};
use prost::Message;
use rocksdb::{DB, FlushOptions};

use super::{
    error::StorageError,
    options::{self, META, ROWS},
};

/// The layout of the state database that this build writes, and the newest that it reads.
pub(super) const FORMAT: u32 = 1;
pub(super) const FORMAT_KEY: &[u8] = b"format";
pub(super) const APPLIED_KEY: &[u8] = b"applied";
pub(super) const MEMBERSHIP_KEY: &[u8] = b"membership";
/// See [`authentic`](super::authentic).
pub(super) const MARK_KEY: &[u8] = b"mark";

/// Makes all rows that were written durable.
pub(super) fn flush(db: &DB) -> Result<(), StorageError> {
    let families = [family(db, ROWS), family(db, META)];
    db.flush_cfs_opt(&[&families[0], &families[1]], &FlushOptions::default())
        .map_err(StorageError::engine("flush the state"))
}

/// Marks a new database with the format; refuses one of a newer format.
pub(super) fn check_format(db: &DB) -> Result<(), StorageError> {
    let meta = family(db, META);
    let format = db
        .get_cf(&meta, FORMAT_KEY)
        .map_err(StorageError::engine("read the state"))?;
    let Some(format) = format else {
        return db
            .put_cf_opt(
                &meta,
                FORMAT_KEY,
                FORMAT.to_be_bytes(),
                &options::unlogged(),
            )
            .map_err(StorageError::engine("write the state"));
    };
    match format.try_into().map(u32::from_be_bytes) {
        Ok(found) if found > FORMAT => Err(StorageError::NewerFormat {
            what: "the state",
            found,
            known: FORMAT,
        }),
        Ok(_) => Ok(()),
        Err(_) => Err(StorageError::damaged(
            "the state's format",
            "it is not a number",
        )),
    }
}

pub(super) fn read_applied(db: &DB) -> Result<Option<LogId>, StorageError> {
    read_meta(db, APPLIED_KEY)
}

pub(super) fn read_membership(db: &DB) -> Result<Option<StoredMembership>, StorageError> {
    read_meta(db, MEMBERSHIP_KEY)
}

fn read_meta<T: Message + Default>(db: &DB, key: &[u8]) -> Result<Option<T>, StorageError> {
    let value = db.get_cf(&family(db, META), key);
    decode_meta(key, value.map_err(StorageError::engine("read the state"))?)
}

fn decode_meta<T: Message + Default>(
    key: &[u8],
    value: Option<Vec<u8>>,
) -> Result<Option<T>, StorageError> {
    let decoded = value.map(|value| T::decode(value.as_slice())).transpose();
    decoded.map_err(|e| {
        StorageError::damaged(
            format!("the state's `{}`", String::from_utf8_lossy(key)),
            e.to_string(),
        )
    })
}

/// The applied entry as of a snapshot of the database.
pub(super) fn decode_applied(value: Option<Vec<u8>>) -> Result<Option<LogId>, StorageError> {
    decode_meta(APPLIED_KEY, value)
}

pub(super) fn family<'a>(db: &'a DB, name: &str) -> Arc<rocksdb::BoundColumnFamily<'a>> {
    db.cf_handle(name)
        .expect("every family is created when the database is opened")
}
