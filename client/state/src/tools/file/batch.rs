//! Batches: written down first, then carried out, and carried out again by the next process that
//! finds one.

use std::fs;

use helve_client::{Error, ErrorKind};
use serde_json::Value;

use super::{
    disk::{Disk, corrupt, is_absent, parent, renewed, sync_directory},
    failures::{after, before},
};
use crate::tools::{
    options::Lifespan,
    row::{self, Row},
};

const BATCH: &str = "batch";

impl Disk {
    pub(super) fn has_batch(&self) -> Result<bool, Error> {
        let path = self.own(BATCH);
        path.try_exists().map_err(|error| before(&path, error))
    }

    pub(super) fn store_all(
        &self,
        items: Vec<(String, Value)>,
        lifespan: Lifespan,
    ) -> Result<(), Error> {
        self.write_down(items, lifespan)?;
        // From here on the batch is stored, whatever comes: the next call would finish it.
        self.finish_batch().map_err(|error| {
            let message =
                format!("the batch is stored, and will be there with the next call: {error}");
            Error::new(ErrorKind::Ambiguous, message).with_source(error)
        })
    }

    pub(super) fn write_down(
        &self,
        items: Vec<(String, Value)>,
        lifespan: Lifespan,
    ) -> Result<(), Error> {
        self.sweep_if_due();
        let revision = self.next_revision()?;
        let row = |(key, value): (String, Value)| {
            let found = self.live(&key)?;
            Ok(renewed(found.as_ref(), key, value, lifespan, revision))
        };
        let rows = items
            .into_iter()
            .map(row)
            .collect::<Result<Vec<Row>, Error>>()?;
        let json = serde_json::to_vec(&rows).map_err(|error| {
            Error::new(ErrorKind::Codec, "the values have no JSON form").with_source(error)
        })?;
        self.replace(&self.own(BATCH), &json)
    }

    /// Carries out the batch that is written down, if there is one. Twice does no harm.
    pub(super) fn finish_batch(&self) -> Result<(), Error> {
        let path = self.own(BATCH);
        let json = match fs::read(&path) {
            Ok(json) => json,
            Err(error) if is_absent(&error) => return Ok(()),
            Err(error) => return Err(before(&path, error)),
        };
        let rows: Vec<Row> = row::read(&json).map_err(|error| corrupt(&path, error))?;
        rows.iter().try_for_each(|row| self.write(row))?;
        fs::remove_file(&path).map_err(|error| before(&path, error))?;
        sync_directory(parent(&path)).map_err(|error| after(&path, error))
    }
}
