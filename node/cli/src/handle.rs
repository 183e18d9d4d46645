//! `helve handle`: handles from the command line.

mod args;
mod list;

use anyhow::anyhow;
use helve_client::v1::{
    CountRequest, DeleteRequest, GetRequest, HandleStatus, MintRequest, PutRequest, RecordInfo,
    RenewRequest, ReplyHeader, TakeRequest, WriteStatus,
};
use helve_command::{
    cluster::{client, failed, identity, writing_client},
    ending::{Ending, Outcome},
    output::{OutputArgs, harmless},
};
use serde::Serialize;

pub(crate) use self::args::Command;
use self::args::{CountArgs, MintArgs, NameArgs, PutArgs, RenewArgs, RevisionArgs};
use super::{record::Record, value::Shown};

/// What a command on one handle prints.
#[derive(Serialize)]
struct Answer {
    /// `live`, `created`, `replaced`, `expired`, `taken` or `unknown`.
    status: &'static str,
    id: String,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    record: Option<Record>,
}

#[derive(Serialize)]
struct Count {
    live: u64,
}

/// Runs a command.
///
/// # Errors
/// See [`Ending`].
pub(crate) async fn run(command: &Command) -> Outcome {
    match command {
        Command::Mint(args) => mint(args).await,
        Command::Put(args) => put(args).await,
        Command::Get(args) => get(args).await,
        Command::Take(args) => take(args).await,
        Command::Renew(args) => renew(args).await,
        Command::Delete(args) => delete(args).await,
        Command::List(args) => list::run(args).await,
        Command::Count(args) => count(args).await,
    }
}

async fn mint(args: &MintArgs) -> Outcome {
    let client = writing_client(&args.common.cluster).await?;
    let request = MintRequest {
        identity: identity()?,
        store: args.common.store.clone(),
        owner: args.common.owner.clone(),
        id_prefix: args.id_prefix.clone(),
        value: args.value.read().map_err(Ending::Refused)?,
        lifetime: Some(args.lifetime.lifetime()),
    };
    let reply = client.call(request).await.map_err(failed)?;
    let info = reply.info.unwrap_or_default();
    let (id, header) = (info.name.clone(), reply.header.as_ref());
    let answer = answer("created", &id, Some(info), header, None);
    args.common
        .output
        .print(&answer, |answer| answer.id.clone())
}

async fn put(args: &PutArgs) -> Outcome {
    let client = writing_client(&args.common.cluster).await?;
    let request = PutRequest {
        identity: identity()?,
        store: args.common.store.clone(),
        owner: args.common.owner.clone(),
        id: args.id.clone(),
        value: args.value.read().map_err(Ending::Refused)?,
        lifetime: Some(args.lifetime.lifetime()),
        if_revision: args.if_revision,
    };
    let reply = client.call(request).await.map_err(failed)?;
    let status = match reply.status() {
        WriteStatus::Created => "created",
        WriteStatus::Replaced => "replaced",
        WriteStatus::Expired => "expired",
        WriteStatus::Taken => "taken",
        WriteStatus::Unspecified => "unknown",
    };
    let answer = answer(status, &args.id, reply.info, reply.header.as_ref(), None);
    finish(&args.common.output, &answer, |record, status| {
        record.line(status)
    })
}

async fn get(args: &NameArgs) -> Outcome {
    let client = client(&args.common.cluster)?;
    let request = GetRequest {
        store: args.common.store.clone(),
        owner: args.common.owner.clone(),
        id: args.id.clone(),
    };
    let reply = client.call(request).await.map_err(failed)?;
    let (status, header) = (status(reply.status()), reply.header.as_ref());
    let answer = answer(status, &args.id, reply.info, header, Some(&reply.value));
    finish(&args.common.output, &answer, value)
}

async fn take(args: &RevisionArgs) -> Outcome {
    let client = writing_client(&args.common.cluster).await?;
    let request = TakeRequest {
        identity: identity()?,
        store: args.common.store.clone(),
        owner: args.common.owner.clone(),
        id: args.id.clone(),
        if_revision: args.if_revision,
    };
    let reply = client.call(request).await.map_err(failed)?;
    let (status, header) = (status(reply.status()), reply.header.as_ref());
    let answer = answer(status, &args.id, reply.info, header, Some(&reply.value));
    finish(&args.common.output, &answer, value)
}

async fn renew(args: &RenewArgs) -> Outcome {
    let client = writing_client(&args.common.cluster).await?;
    let request = RenewRequest {
        identity: identity()?,
        store: args.common.store.clone(),
        owner: args.common.owner.clone(),
        id: args.id.clone(),
        lifetime: Some(args.lifetime()),
    };
    let reply = client.call(request).await.map_err(failed)?;
    let (status, header) = (status(reply.status()), reply.header.as_ref());
    let answer = answer(status, &args.id, reply.info, header, None);
    finish(&args.common.output, &answer, |record, _| {
        record.line("renewed")
    })
}

async fn delete(args: &RevisionArgs) -> Outcome {
    let client = writing_client(&args.common.cluster).await?;
    let request = DeleteRequest {
        identity: identity()?,
        store: args.common.store.clone(),
        owner: args.common.owner.clone(),
        id: args.id.clone(),
        if_revision: args.if_revision,
    };
    let reply = client.call(request).await.map_err(failed)?;
    let (status, header) = (status(reply.status()), reply.header.as_ref());
    let answer = answer(status, &args.id, None, header, None);
    let deleted = reply.status() == HandleStatus::Live;
    let output = &args.common.output;
    // People read the error alone.
    if deleted || output.is_json() {
        output.print(&answer, |answer| format!("deleted {}", answer.id))?;
    }
    if deleted {
        Ok(())
    } else {
        Err(not_live(&answer))
    }
}

async fn count(args: &CountArgs) -> Outcome {
    let client = client(&args.cluster)?;
    let request = CountRequest {
        store: args.store.clone(),
        owner: args.owner.clone(),
    };
    let reply = client.call(request).await.map_err(failed)?;
    args.output
        .print(&Count { live: reply.live }, |count| count.live.to_string())
}

fn answer(
    status: &'static str,
    id: &str,
    info: Option<RecordInfo>,
    header: Option<&ReplyHeader>,
    value: Option<&[u8]>,
) -> Answer {
    Answer {
        status,
        id: id.to_owned(),
        record: info.map(|info| Record::new(info, header, value)),
    }
}

/// Prints an answer. One without a record ends the command: the handle does not live.
fn finish(
    output: &OutputArgs,
    answer: &Answer,
    text: impl FnOnce(&Record, &'static str) -> String,
) -> Outcome {
    let Some(record) = &answer.record else {
        if output.is_json() {
            output.print(answer, |_| String::new())?;
        }
        return Err(not_live(answer));
    };
    output.print(answer, |answer| text(record, answer.status))
}

fn value(record: &Record, _: &'static str) -> String {
    record.value.as_ref().map(Shown::text).unwrap_or_default()
}

fn not_live(answer: &Answer) -> Ending {
    let id = harmless(&answer.id);
    Ending::Absent(anyhow!("handle {id} is {}", answer.status))
}

fn status(status: HandleStatus) -> &'static str {
    match status {
        HandleStatus::Live => "live",
        HandleStatus::Expired => "expired",
        HandleStatus::Taken => "taken",
        HandleStatus::Unknown | HandleStatus::Unspecified => "unknown",
    }
}
