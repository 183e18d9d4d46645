//! The S3 tool: one object a key.

mod objects;
mod options;
mod wire;

use std::fmt;

use async_trait::async_trait;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use helve_client::{
    Error, ErrorKind, Listing, Promises, Record, StoreOutcome, Ttl, extend::Backoff,
};
use helve_proto::v1::RecordInfo;
use serde_json::Value;

pub use self::options::S3Options;

use self::objects::{Objects, Put};
use super::{
    bounds::Room,
    gate::Gate,
    keeper::{Access, Keeper, state_tool},
    options::{Lifespan, ToolOptions},
    row::{Row, now_ms},
};

/// Objects that are asked for at once.
const REQUESTS_MAX: usize = 16;

/// Keys in a bucket of an object store that speaks S3 and has conditional writes (`If-Match` and `If-None-Match`, which AWS, `MinIO`
/// and R2 have).
///
/// The key `a/b` is the object of that name; bytes other than `[a-z0-9_-]` are escaped as in the
/// file tool, and the name with its escapes must fit in 1,024 bytes. The object is JSON: revision,
/// times, value. A store reads the object and replaces it on the condition that no other caller
/// has, so it takes two requests. Revisions are made from this machine's clock and randomness: they
/// grow with every write of a key that is there, and tell a key from the one that was deleted
/// before.
///
/// # What it does not promise
/// - Atomic batches: a batch is stored item by item, in order, and an error leaves those before it stored.
/// - Lists of one view. A list of keys is one request for a thousand; infos and values take one more for each key.
/// - Lifetimes, absolute or idle: a store with one is refused as [`Unsupported`](ErrorKind::Unsupported), and so is a tool with a
///   default. Give the bucket a lifecycle rule.
/// - Exactly once: a write whose answer is lost is looked for, and [`Ambiguous`](ErrorKind::Ambiguous) if that fails too.
pub struct S3Tool {
    objects: Objects,
    gate: Gate,
}

impl S3Tool {
    /// What it promises. Durability and linearizability are those of AWS; of another service, ask its makers.
    pub const PROMISES: Promises = {
        let mut promises = Promises::NONE;
        promises.durable = true;
        promises.linearizable = true;
        promises.revisions = true;
        promises
    };

    /// Keys of the bucket. Connects with the first call.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) if there can be no such bucket, region or endpoint, and for `http` without
    /// [`allow_http`](S3Options::allow_http); [`Unsupported`](ErrorKind::Unsupported) for a default lifetime;
    /// [`Unavailable`](ErrorKind::Unavailable) if this machine has no certificate authorities for `https`.
    pub fn new(s3: &S3Options, options: ToolOptions) -> Result<Self, Error> {
        let gate = Gate::new(options)?;
        let deadline = gate.options().deadline;
        let objects = Objects::new(s3.open(deadline)?);
        let tool = Self { objects, gate };
        tool.lifespan(Ttl::Default)?;
        Ok(tool)
    }

    /// Reads, and replaces what was read if the revision is the wanted one; again if another writer came between.
    async fn replace(
        &self,
        key: &str,
        value: &Value,
        if_revision: Option<u64>,
    ) -> Result<StoreOutcome, Error> {
        let mut backoff = Backoff::contention();
        loop {
            let found = self.objects.get(key).await?;
            let current = found.as_ref().map_or(0, |(row, _)| row.revision);
            if if_revision.is_some_and(|wanted| wanted != current) {
                return Ok(StoreOutcome::Conflict { revision: current });
            }
            let row = next(found.as_ref().map(|(row, _)| row), key, value)?;
            match self.objects.put(&row, found.map(|(_, tag)| tag)).await? {
                Put::Done if current == 0 => return Ok(StoreOutcome::Created(row.info())),
                Put::Done => return Ok(StoreOutcome::Replaced(row.info())),
                Put::Overtaken => tokio::time::sleep(backoff.next_pause()).await,
            }
        }
    }

    /// What is made of the rows of these keys, as they come.
    async fn rows<I>(
        &self,
        keys: &[String],
        mut item: impl FnMut(Option<Row>) -> Result<I, Error> + Send,
    ) -> Result<Vec<I>, Error> {
        let rows: Vec<_> = keys.iter().map(|key| self.objects.get(key)).collect();
        let rows = stream::iter(rows).buffered(REQUESTS_MAX);
        rows.map(|found| item(found?.map(|(row, _)| row)))
            .try_collect()
            .await
    }

    async fn list<I>(
        &self,
        prefix: &str,
        mut item: impl FnMut(Record<Value>) -> Result<I, Error> + Send,
    ) -> Result<Listing<I>, Error> {
        let keys = self.objects.keys(prefix).await?;
        let mut revision = 0;
        let item = |row: Option<Row>| {
            let record = row.map(Row::into_record);
            revision = record.as_ref().map_or(0, Record::revision).max(revision);
            record.map(&mut item).transpose()
        };
        let items = self.rows(&keys, item).await?;
        Ok(Listing {
            revision,
            clock_ms: now_ms(),
            items: items.into_iter().flatten().collect(),
        })
    }
}

state_tool!(S3Tool);

#[async_trait]
impl Keeper for S3Tool {
    type Way = ();

    fn gate(&self) -> &Gate {
        &self.gate
    }

    fn promised(&self) -> Promises {
        Self::PROMISES
    }

    fn lifespan(&self, ttl: Ttl) -> Result<Lifespan, Error> {
        never(self.gate.options().lifespan(ttl)?)
    }

    async fn reach(&self, _access: Access) -> Result<(), Error> {
        Ok(())
    }

    async fn put(
        &self,
        (): (),
        (key, value): (&str, &Value),
        _lifespan: Lifespan,
        if_revision: Option<u64>,
    ) -> Result<StoreOutcome, Error> {
        self.replace(key, value, if_revision).await
    }

    async fn put_all(
        &self,
        (): (),
        items: &[(String, Value)],
        _lifespan: Lifespan,
    ) -> Result<(), Error> {
        for (key, value) in items {
            self.replace(key, value, None).await?;
        }
        Ok(())
    }

    async fn get(&self, (): (), keys: &[String]) -> Result<Vec<Option<Record<Value>>>, Error> {
        self.rows(keys, |row| Ok(row.map(Row::into_record))).await
    }

    async fn has(&self, (): (), key: &str) -> Result<bool, Error> {
        self.objects.exists(key).await
    }

    async fn remove(&self, (): (), key: &str) -> Result<(), Error> {
        self.objects.delete(key).await
    }

    async fn names(&self, (): (), prefix: &str) -> Result<Vec<String>, Error> {
        self.objects.keys(prefix).await
    }

    async fn infos(&self, (): (), prefix: &str) -> Result<Listing<RecordInfo>, Error> {
        self.list(prefix, |record| Ok(record.info)).await
    }

    async fn records(&self, (): (), prefix: &str) -> Result<Listing<Record<Value>>, Error> {
        let mut room = Room::LIST;
        let record = |record: Record<Value>| {
            room.take(record.info.value_bytes)?;
            Ok(record)
        };
        self.list(prefix, record).await
    }
}

fn never(lifespan: Lifespan) -> Result<Lifespan, Error> {
    match lifespan {
        Lifespan::Never | Lifespan::Keep => Ok(lifespan),
        Lifespan::AfterMs(_) => {
            let message = "objects of S3 have no lifetimes here: store without, and give the bucket a lifecycle rule";
            Err(Error::new(ErrorKind::Unsupported, message))
        }
    }
}

/// The row that takes the place of another.
fn next(found: Option<&Row>, key: &str, value: &Value) -> Result<Row, Error> {
    let now_ms = now_ms();
    let write = getrandom::u64().map_err(|error| {
        Error::new(ErrorKind::Entropy, "no randomness for a revision").with_source(error)
    })?;
    // 42 bits of time last until the year 2109, 21 bits tell the writers of one millisecond apart.
    let drawn = (now_ms << 21) | (write & 0x1f_ffff);
    Ok(Row {
        key: key.to_owned(),
        revision: found.map_or(drawn, |row| drawn.max(row.revision.saturating_add(1))),
        created_at_ms: found.map_or(now_ms, |row| row.created_at_ms),
        updated_at_ms: found.map_or(now_ms, |row| now_ms.max(row.updated_at_ms)),
        expires_at_ms: None,
        value: value.clone(),
        write: Some(write),
    })
}

impl fmt::Debug for S3Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3Tool")
            .field("gate", &self.gate)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn writers_behind_one_whose_clock_is_ahead_are_told_apart() {
        let mut ahead = next(None, "k", &json!(1)).unwrap();
        ahead.revision += 1 << 40;
        let [one, two] = [(); 2].map(|()| next(Some(&ahead), "k", &json!(2)).unwrap());
        assert_eq!(one.revision, ahead.revision + 1);
        assert_eq!(two.revision, one.revision, "both go on from what they read");
        assert_ne!(one.write, two.write);
    }
}
