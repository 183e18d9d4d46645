//! The tools that read.

use helve_client::{
    Error, Reason, StateTool,
    exact::{self, Inexact},
    v1::{BatchRetrieveRequest, KeyRecord, RetrieveRequest},
};

use super::{
    answers::{Existence, KeyInfo, Listed, Retrieved, RetrievedBatch},
    arguments::{BatchRetrieve, LIST_KEYS_MAX, List, OneKey, check_batch},
    call::Call,
    error::ToolError,
};
use crate::wire::weight::parsed_bytes;

/// Bytes of values in one answer. They stand in it twice, as text and as structure, and balancers bound what they pass on.
const ANSWER_BYTES_MAX: u64 = 2 << 20;
const TOO_LARGE: ToolError = ToolError::TooLarge {
    max: ANSWER_BYTES_MAX,
};

pub(super) async fn retrieve(
    call: &mut Call,
    OneKey { key }: OneKey,
) -> Result<Retrieved, ToolError> {
    let record = look(call, &key).await?;
    answer(call, key, record).await
}

pub(super) async fn exists(call: &Call, OneKey { key }: OneKey) -> Result<Existence, ToolError> {
    let exists = call.keys().exists(&key).await?;
    Ok(Existence { key, exists })
}

pub(super) async fn batch_retrieve(
    call: &mut Call,
    BatchRetrieve { keys }: BatchRetrieve,
) -> Result<RetrievedBatch, ToolError> {
    check_batch("keys", keys.len())?;
    let request = BatchRetrieveRequest {
        owner: call.owner()?,
        keys: keys.clone(),
    };
    let reply = call.client().call(request).await.map_err(too_large)?;
    let records: Vec<_> = reply.keys.into_iter().map(|key| key.record).collect();
    let values = records.iter().flatten();
    let bytes: u64 = values.map(|record| record.value.len() as u64).sum();
    if bytes > ANSWER_BYTES_MAX {
        return Err(TOO_LARGE);
    }
    if records.len() != keys.len() {
        tracing::error!("the store answered for another number of keys than it was asked for");
        return Err(ToolError::Internal);
    }
    answer_batch(call, keys, records).await
}

/// What a `retrieve` answers, once there is room for the value.
async fn answer(
    call: &mut Call,
    key: String,
    record: Option<KeyRecord>,
) -> Result<Retrieved, ToolError> {
    let bytes = record.as_ref().map_or(0, weight);
    call.claim(bytes).await?;
    retrieved(key, record)
}

/// What a `batch_retrieve` answers, once there is room for all values.
async fn answer_batch(
    call: &mut Call,
    keys: Vec<String>,
    records: Vec<Option<KeyRecord>>,
) -> Result<RetrievedBatch, ToolError> {
    let bytes: usize = records.iter().flatten().map(weight).sum();
    call.claim(bytes).await?;
    let answers = keys.into_iter().zip(records);
    Ok(RetrievedBatch {
        keys: answers
            .map(|(key, record)| retrieved(key, record))
            .collect::<Result<_, _>>()?,
    })
}

/// Bytes that a value takes up once it is parsed.
fn weight(record: &KeyRecord) -> usize {
    parsed_bytes(&record.value)
}

/// The store bounds its answers, too.
fn too_large(error: Error) -> ToolError {
    match error.reason() {
        Some(Reason::TooLarge) => TOO_LARGE,
        _ => error.into(),
    }
}

pub(super) async fn list(
    call: &Call,
    List {
        prefix,
        after,
        limit,
    }: List,
) -> Result<Listed, ToolError> {
    if !(1..=LIST_KEYS_MAX).contains(&limit) {
        return Err(ToolError::bad_argument(format!(
            "a limit of {limit}: 1 to {LIST_KEYS_MAX}"
        )));
    }
    let page = call.keys();
    let page = page.list_page(&prefix, after.as_deref(), limit).await?;
    Ok(Listed {
        keys: page.items.into_iter().map(KeyInfo::from).collect(),
        revision: page.revision,
        next: page.next,
    })
}

/// The key's record, with its value as it was stored; none, if there is no such key.
pub(super) async fn look(call: &Call, key: &str) -> Result<Option<KeyRecord>, ToolError> {
    let request = RetrieveRequest {
        owner: call.owner()?,
        key: key.to_owned(),
    };
    Ok(call.make(request).await?.record)
}

fn retrieved(key: String, record: Option<KeyRecord>) -> Result<Retrieved, ToolError> {
    let Some(KeyRecord { info, value }) = record else {
        return Ok(Retrieved {
            key,
            found: false,
            value: None,
            info: None,
        });
    };
    // Before it is parsed: what is not exact is not safe to parse, either.
    match exact::check_names(&value).and_then(|()| exact::check_stored_numbers(&value)) {
        Ok(()) => {}
        Err(Inexact::Syntax(_)) => return Err(ToolError::NotJson { key }),
        Err(error) => {
            let why = error.to_string();
            return Err(ToolError::NotExact { key, why });
        }
    }
    let Ok(json) = serde_json::from_slice(&value) else {
        return Err(ToolError::NotJson { key });
    };
    Ok(Retrieved {
        key,
        found: true,
        value: Some(json),
        info: info.map(KeyInfo::from),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use helve_client::{Client, KeyOptions, MemoryBuilder, Owner};
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::state::room::ReadRoom;

    fn record(value: &str) -> KeyRecord {
        KeyRecord {
            info: None,
            value: value.to_owned().into(),
        }
    }

    fn read(value: &str) -> Result<Retrieved, ToolError> {
        retrieved("k".to_owned(), Some(record(value)))
    }

    fn begin(client: &Client, room: &ReadRoom) -> Call {
        Call::begin(client, Owner::shared(), &KeyOptions::shared(), room)
    }

    #[tokio::test]
    async fn values_are_charged_for_what_they_parse_to() {
        // No time is left: there is room at once, or none.
        let client = MemoryBuilder::new().build().unwrap();
        let client = client.with_deadline(Duration::ZERO);
        let room = ReadRoom::of(64 << 10);
        // Few bytes, which parse to more than a quarter of the room, and less than half.
        let heavy = format!("[{}0]", r#"{"":0},"#.repeat(10));
        let one = async |call: &mut Call| answer(call, "k".to_owned(), Some(record(&heavy))).await;
        let two = async |call: &mut Call| {
            let records = vec![Some(record(&heavy)), None, Some(record(&heavy))];
            let keys = ["a", "b", "c"].map(str::to_owned).to_vec();
            answer_batch(call, keys, records).await
        };
        let mut batch = begin(&client, &room);
        assert!(two(&mut batch).await.is_ok());
        let mut single = begin(&client, &room);
        assert!(one(&mut single).await.is_ok());
        let mut late = begin(&client, &room);
        let refused = one(&mut late).await.unwrap_err();
        assert_eq!(refused, ToolError::Unavailable);
        let refused = two(&mut late).await.unwrap_err();
        assert_eq!(refused, ToolError::Unavailable);
        // What takes up nothing needs no room, and an earlier call leaves its own.
        assert!(answer(&mut late, "k".to_owned(), None).await.is_ok());
        drop(batch);
        assert!(two(&mut late).await.is_ok());
    }

    #[tokio::test]
    async fn room_is_kept_until_the_answer_is_taken() {
        let client = MemoryBuilder::new().build().unwrap();
        let room = ReadRoom::of(2 << 10);
        let mut first = begin(&client, &room);
        let mut second = begin(&client, &room);
        for call in [&mut first, &mut second] {
            let read = answer(call, "k".to_owned(), Some(record("[1]"))).await;
            assert!(read.is_ok());
        }
        let taken = CancellationToken::new();
        first.keep_room_until(taken.clone());
        let hasty = client.with_deadline(Duration::ZERO);
        let refused = answer(&mut begin(&hasty, &room), "k".to_owned(), Some(record("1"))).await;
        assert_eq!(refused.unwrap_err(), ToolError::Unavailable);
        taken.cancel();
        let mut third = begin(&client, &room);
        let read = answer(&mut third, "k".to_owned(), Some(record("1"))).await;
        assert!(read.is_ok());
    }

    #[test]
    fn stored_value_that_is_not_exact_is_refused_before_it_is_parsed() {
        let mut nested = "1".to_owned();
        while nested.len() < 690_000 {
            let escaped = nested.replace('\\', "\\u005c").replace('"', "\\u0022");
            let (open, close) = ("[".repeat(120), "]".repeat(120));
            nested = format!(r#"{open}{{"$serde_json::private::RawValue":"{escaped}"}}{close}"#);
        }
        for value in [
            &nested,
            r#"{"$serde_json::private::RawValue":"{}"}"#,
            r#"[{"a":{"\u0024serde_json::private::Number":"1"}}]"#,
            r#"{"a":1,"a":2}"#,
            "9007199254740993.0",
        ] {
            let refused = read(value).unwrap_err();
            assert!(matches!(refused, ToolError::NotExact { .. }), "{refused}");
        }
        for value in ["", "{", "plain"] {
            let refused = read(value).unwrap_err();
            assert!(matches!(refused, ToolError::NotJson { .. }), "{refused}");
        }
        assert_eq!(read("[1]").unwrap().value, Some(serde_json::json!([1])));
    }
}
