//! `helve data-key`: keys that values are sealed under at rest.

mod args;

use std::{path::Path, time::Duration};

use anyhow::{Context as _, anyhow};
use helve_client::{Line, v1::Unit};
use helve_proto::v1::{
    DataKeyStatusReply, DataKeyStatusRequest, SetDataKeyRequest,
    cluster_service_client::ClusterServiceClient, set_data_key_request::Target,
};
use helve_seal::{DataKey, Secret};
use serde::Serialize;
use tokio::time::{Instant, sleep};
use zeroize::Zeroizing;

pub(crate) use self::args::{Command, DataKeyArgs};
use self::args::{NewArgs, RotateArgs, StatusArgs};
use super::{
    cluster::{ClusterArgs, ending, ending_of_change, request},
    ending::{Cause, Caused, Ending, Outcome},
    output::OutputArgs,
    whole_file::{self, Readers, Replace},
};
use crate::{stamp, vault::PURPOSE};

/// How often progress is looked at.
const LOOK_PAUSE: Duration = Duration::from_millis(500);
/// A leader that makes no progress for so long cannot.
const STALL_MAX: Duration = Duration::from_secs(30);

/// A key that was made.
#[derive(Serialize)]
pub(super) struct Made {
    file: String,
    key_id: String,
}

#[derive(Serialize)]
struct Count {
    key_id: String,
    records: u64,
    kept: u64,
}

#[derive(Serialize)]
struct Report {
    key_id: String,
    under_way: bool,
    held: Vec<String>,
    counts: Vec<Count>,
    partial: bool,
}

/// Runs a command.
///
/// # Errors
/// See [`Ending`].
pub(crate) async fn run(command: &Command) -> Outcome {
    match command {
        Command::New(args) => new(args),
        Command::Status(args) => status(args).await,
        Command::Rotate(args) => rotate(args).await,
        Command::Unseal(args) => change(&args.cluster, &args.output, Target::Plain(Unit {})).await,
    }
}

fn new(args: &NewArgs) -> Outcome {
    let made = make(&args.file).map_err(Ending::Refused)?;
    args.output
        .print(&made, |made| format!("{}: key {}", made.file, made.key_id))
}

/// Makes a key in a new file.
///
/// # Errors
/// If the file is there already or cannot be written, or the operating system gives no randomness.
pub(super) fn make(path: &Path) -> anyhow::Result<Made> {
    let bytes = Zeroizing::new(stamp::random::<32>()?);
    let secret = Secret::new(*bytes)?;
    let file = path.display().to_string();
    whole_file::write(path, &*bytes, Readers::Owner, Replace::Never)
        .with_context(|| file.clone())?;
    Ok(Made {
        file,
        key_id: DataKey::new(&secret, PURPOSE).id().to_string(),
    })
}

async fn status(args: &StatusArgs) -> Outcome {
    let (mut client, _) = first(&args.cluster).await?;
    let report = report(ask(&mut client, args.cluster.timeout).await?);
    args.output.print(&report, text)
}

async fn rotate(args: &RotateArgs) -> Outcome {
    let target = match &args.to {
        Some(key_id) => Target::KeyId(key_id.clone()),
        None => {
            let (_, now) = first(&args.cluster).await?;
            let is_newest = now.held.last() == Some(&now.key_id);
            if is_newest && !now.under_way {
                return Err(nothing_new(&now.key_id));
            }
            Target::Newest(Unit {})
        }
    };
    change(&args.cluster, &args.output, target).await
}

/// Values are sealed under the newest key already: nothing was rotated.
fn nothing_new(key_id: &str) -> Ending {
    let message = format!(
        "nothing to rotate to: values are sealed under key {key_id} already, and the node that was asked holds no newer one; \
         make one with `helve data-key new FILE`, give it to every node, and run this again"
    );
    Ending::Absent(Caused::new(Cause::NothingNew, message).into())
}

/// Asks for the change, and follows it to its end.
async fn change(cluster: &ClusterArgs, output: &OutputArgs, target: Target) -> Outcome {
    let (mut client, before) = first(cluster).await?;
    let message = SetDataKeyRequest {
        target: Some(target),
        if_index: Some(before.index),
    };
    let set = client.set_data_key(request(message, cluster.timeout)).await;
    let set = set
        .map_err(|status| ending_of_change(&status))?
        .into_inner();
    let (mut seen, mut moved) = (None, Instant::now());
    loop {
        let reply = ask(&mut client, cluster.timeout).await?;
        let is_known = reply.index >= set.index;
        if is_known && !reply.under_way {
            return output.print(&report(reply), text);
        }
        let counts = (reply.counts, reply.resealed, reply.walked_rows);
        if seen.as_ref() != Some(&counts) {
            if !output.is_json() {
                eprintln!("{}", progress(&counts.0, &set.key_id));
            }
            (seen, moved) = (Some(counts), Instant::now());
        }
        if moved.elapsed() > STALL_MAX {
            let message = "sealing anew makes no progress: the leader's log says why, and goes on by itself once it can";
            return Err(Ending::Unanswered(anyhow!(message)));
        }
        sleep(LOOK_PAUSE).await;
    }
}

fn progress(counts: &[helve_proto::v1::DataKeyCount], key_id: &str) -> String {
    let all: u64 = counts.iter().map(|count| count.records).sum();
    let done = counts.iter().filter(|count| count.key_id == key_id);
    let done: u64 = done.map(|count| count.records).sum();
    format!("{done} of {all} values")
}

/// The first endpoint that answers.
async fn first(
    cluster: &ClusterArgs,
) -> Result<(ClusterServiceClient<Line>, DataKeyStatusReply), Ending> {
    let mut last = Ending::Refused(anyhow!("--endpoints: none is given"));
    for endpoint in &cluster.endpoints {
        let channel = cluster.channel(endpoint).map_err(Ending::Refused)?;
        let mut client = ClusterServiceClient::new(channel);
        match ask(&mut client, cluster.timeout).await {
            Ok(reply) => return Ok((client, reply)),
            Err(error) => last = error,
        }
    }
    Err(last)
}

async fn ask(
    client: &mut ClusterServiceClient<Line>,
    timeout: Duration,
) -> Result<DataKeyStatusReply, Ending> {
    let reply = client
        .data_key_status(request(DataKeyStatusRequest {}, timeout))
        .await;
    Ok(reply.map_err(|status| ending(&status))?.into_inner())
}

fn report(reply: DataKeyStatusReply) -> Report {
    let counts = reply.counts.into_iter().map(|count| Count {
        key_id: count.key_id,
        records: count.records,
        kept: count.kept,
    });
    Report {
        key_id: reply.key_id,
        under_way: reply.under_way,
        held: reply.held,
        counts: counts.collect(),
        partial: reply.partial,
    }
}

fn text(report: &Report) -> String {
    let named = |key_id: &str| match key_id {
        "" => "not sealed".to_owned(),
        key_id => format!("key {key_id}"),
    };
    let mut lines = vec![format!(
        "values are {}",
        match report.key_id.as_str() {
            "" => "not sealed".to_owned(),
            key_id => format!("sealed under key {key_id}"),
        }
    )];
    if report.under_way {
        lines.push("what is sealed otherwise is being sealed anew".to_owned());
    }
    lines.push(format!("keys held: {}", report.held.join(", ")));
    for count in &report.counts {
        lines.push(format!(
            "{}: {} values, and {} kept for retries",
            named(&count.key_id),
            count.records,
            count.kept
        ));
    }
    if report.partial {
        lines.push("not all were counted within --timeout: give it longer".to_owned());
    }
    lines.join("\n")
}
