//! `helve state`: keys from the command line.

mod args;

use std::collections::BTreeMap;

use anyhow::anyhow;
use helve_client::{
    exact,
    v1::{
        BatchRetrieveRequest, BatchStoreRequest, DeleteKeyRequest, ExistsRequest, ListKeysRequest,
        RetrieveRequest, StoreItem, StoreRequest, WriteStatus,
    },
};
use helve_command::{
    cluster::{client, failed, identity, writing_client},
    ending::{Ending, Outcome},
    output::{OutputArgs, harmless},
};
use serde::Serialize;
use serde_json::value::RawValue;

pub(crate) use self::args::Command;
use self::args::{BatchRetrieveArgs, BatchStoreArgs, DeleteArgs, KeyArgs, ListArgs, StoreArgs};
use super::{
    record::{Record, Records, records_text},
    value::{self, Raw, Shown},
};

#[derive(Serialize)]
struct Stored {
    /// `created` or `replaced`.
    status: &'static str,
    #[serde(flatten)]
    record: Record,
}

#[derive(Serialize)]
struct Answer<'a> {
    key: &'a str,
    exists: bool,
}

/// Runs a command.
///
/// # Errors
/// See [`Ending`].
pub(crate) async fn run(command: &Command) -> Outcome {
    match command {
        Command::Store(args) => store(args).await,
        Command::Retrieve(args) => retrieve(args).await,
        Command::Delete(args) => delete(args).await,
        Command::List(args) => list(args).await,
        Command::Exists(args) => exists(args).await,
        Command::BatchStore(args) => batch_store(args).await,
        Command::BatchRetrieve(args) => batch_retrieve(args).await,
    }
}

async fn store(args: &StoreArgs) -> Outcome {
    let client = writing_client(&args.common.cluster).await?;
    let said = value::read(&args.value).map_err(Ending::Refused)?;
    let request = StoreRequest {
        identity: identity()?,
        owner: args.common.owner.clone(),
        key: args.key.clone(),
        value: value::encode(said, args.raw.then_some(Raw)).map_err(Ending::Refused)?,
        lifetime: Some(args.lifetime.lifetime()),
        if_revision: args.if_revision,
    };
    let reply = client.call(request).await.map_err(failed)?;
    let status = if reply.status() == WriteStatus::Created {
        "created"
    } else {
        "replaced"
    };
    let header = reply.header.clone();
    let record = Record::new(reply.info.unwrap_or_default(), header.as_ref(), None);
    args.common
        .output
        .print(&Stored { status, record }, |stored| {
            stored.record.line(stored.status)
        })
}

async fn retrieve(args: &KeyArgs) -> Outcome {
    let client = client(&args.common.cluster)?;
    let request = RetrieveRequest {
        owner: args.common.owner.clone(),
        key: args.key.clone(),
    };
    let reply = client.call(request).await.map_err(failed)?;
    let Some(record) = reply.record else {
        return absent_from(&args.common.output, &args.key);
    };
    let info = record.info.unwrap_or_default();
    let record = Record::new(info, reply.header.as_ref(), Some(&record.value));
    args.common.output.print(&record, |record| {
        record.value.as_ref().map(Shown::text).unwrap_or_default()
    })
}

async fn delete(args: &DeleteArgs) -> Outcome {
    let client = writing_client(&args.common.cluster).await?;
    let request = DeleteKeyRequest {
        identity: identity()?,
        owner: args.common.owner.clone(),
        key: args.key.clone(),
        if_revision: args.if_revision,
    };
    let exists = client.call(request).await.map_err(failed)?.existed;
    args.common.output.print(
        &Answer {
            key: &args.key,
            exists,
        },
        |answer| {
            let what = if answer.exists { "deleted" } else { "no key" };
            format!("{what} {}", answer.key)
        },
    )
}

async fn exists(args: &KeyArgs) -> Outcome {
    let client = client(&args.common.cluster)?;
    let request = ExistsRequest {
        owner: args.common.owner.clone(),
        key: args.key.clone(),
    };
    let exists = client.call(request).await.map_err(failed)?.exists;
    args.common.output.print(
        &Answer {
            key: &args.key,
            exists,
        },
        |answer| answer.exists.to_string(),
    )?;
    if exists {
        Ok(())
    } else {
        Err(absent(&args.key))
    }
}

async fn list(args: &ListArgs) -> Outcome {
    let request = ListKeysRequest {
        owner: args.common.owner.clone(),
        prefix: args.prefix.clone(),
        with_values: args.values,
        ..ListKeysRequest::default()
    };
    let parts = client(&args.common.cluster)?
        .list_keys(request)
        .await
        .map_err(failed)?;
    let header = parts.first().and_then(|part| part.header.clone());
    let records = parts
        .into_iter()
        .flat_map(|part| part.records)
        .map(|record| {
            let value = args.values.then_some(&record.value[..]);
            Record::new(record.info.unwrap_or_default(), header.as_ref(), value)
        });
    let list = Records::new(header.as_ref(), records);
    args.common
        .output
        .print(&list, |list| records_text(list, "KEY"))
}

async fn batch_store(args: &BatchStoreArgs) -> Outcome {
    let client = writing_client(&args.common.cluster).await?;
    let said = value::read(&args.items).map_err(Ending::Refused)?;
    let refused = |error: &dyn std::fmt::Display| {
        Ending::Refused(anyhow!(
            "the items are not a JSON object of keys and values: {error}"
        ))
    };
    exact::check_names(&said).map_err(|error| refused(&error))?;
    let items: BTreeMap<String, Box<RawValue>> =
        serde_json::from_slice(&said).map_err(|error| refused(&error))?;
    let lifetime = args.lifetime.lifetime();
    let item = |(key, value): (String, Box<RawValue>)| {
        Ok(StoreItem {
            key,
            value: value::encode(value.get().as_bytes().to_vec(), None)?,
            lifetime: Some(lifetime),
            if_revision: None,
        })
    };
    let items = items.into_iter().map(item).collect::<anyhow::Result<_>>();
    let request = BatchStoreRequest {
        identity: identity()?,
        owner: args.common.owner.clone(),
        items: items.map_err(Ending::Refused)?,
    };
    let reply = client.call(request).await.map_err(failed)?;
    let header = reply.header.clone();
    let records = reply
        .infos
        .into_iter()
        .map(|info| Record::new(info, header.as_ref(), None));
    let list = Records::new(header.as_ref(), records);
    args.common
        .output
        .print(&list, |list| records_text(list, "KEY"))
}

async fn batch_retrieve(args: &BatchRetrieveArgs) -> Outcome {
    let client = client(&args.common.cluster)?;
    let request = BatchRetrieveRequest {
        owner: args.common.owner.clone(),
        keys: args.keys.clone(),
    };
    let reply = client.call(request).await.map_err(failed)?;
    let header = reply.header.clone();
    let found = reply
        .keys
        .into_iter()
        .filter_map(|key| key.record)
        .map(|record| {
            Record::new(
                record.info.unwrap_or_default(),
                header.as_ref(),
                Some(&record.value),
            )
        });
    let list = Records::new(header.as_ref(), found);
    args.common
        .output
        .print(&list, |list| records_text(list, "KEY"))?;
    let missing = args
        .keys
        .iter()
        .find(|key| list.records.iter().all(|record| record.name != **key));
    missing.map_or(Ok(()), |key| Err(absent(key)))
}

/// Says that there is no such key: to programs in the form of their answer.
fn absent_from(output: &OutputArgs, key: &str) -> Outcome {
    if output.is_json() {
        let exists = false;
        output.print(&Answer { key, exists }, |_| String::new())?;
    }
    Err(absent(key))
}

fn absent(key: &str) -> Ending {
    Ending::Absent(anyhow!("no key {} exists", harmless(key)))
}
