//! `helve data-key`: keys that values are sealed under at rest.

mod args;
mod newest;

use std::{path::Path, time::Duration};

use anyhow::{Context as _, anyhow};
use helve_client::{NodeConnection, v1::Unit};
use helve_command::{
    cluster::{ClusterArgs, check_one_cluster, ending, ending_of_change, request},
    ending::{Ending, Outcome},
    output::{self, OutputArgs, count},
};
use helve_node::{stamp, vault::PURPOSE};
use helve_proto::v1::{
    DataKeyStatusReply, DataKeyStatusRequest, SetDataKeyRequest,
    cluster_service_client::ClusterServiceClient, set_data_key_request::Target,
};
use helve_seal::{DataKey, Secret};
use serde::Serialize;
use tokio::time::{Instant, sleep};
use zeroize::Zeroizing;

pub(crate) use self::args::{Command, DataKeyArgs, DataKeyFileArgs};
use self::args::{NewArgs, RotateArgs, StatusArgs};
use super::whole_file::{self, Readers, Replace};

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
        .with_context(|| format!("{file} cannot be written"))?;
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
        None => newest::choose(&args.cluster).await?,
    };
    change(&args.cluster, &args.output, target).await
}

/// Asks for the change, and follows it to its end.
async fn change(cluster: &ClusterArgs, output: &OutputArgs, target: Target) -> Outcome {
    check_one_cluster(cluster).await?;
    let (mut client, before) = first(cluster).await?;
    let message = SetDataKeyRequest {
        target: Some(target),
        if_index: Some(before.index),
    };
    let set = client.set_data_key(request(message, cluster.timeout)).await;
    let set = set.map_err(|status| ending_of_change(&status))?;
    let set = set.into_inner();
    let (mut seen, mut moved) = (None, Instant::now());
    let mut answered = Instant::now();
    loop {
        let reply = match ask(&mut client, cluster.timeout).await {
            Ok(reply) => reply,
            Err(lost) => {
                // Any node can tell.
                match first(cluster).await {
                    Ok((other, reply)) => {
                        client = other;
                        reply
                    }
                    Err(_) if answered.elapsed() > cluster.timeout => {
                        return Err(accepted(&format!(
                            "no node says how it goes ({})",
                            lost.error()
                        )));
                    }
                    Err(_) => {
                        sleep(LOOK_PAUSE).await;
                        continue;
                    }
                }
            }
        };
        answered = Instant::now();
        let is_known = reply.index >= set.index;
        if is_known && !reply.under_way {
            return output.print(&report(reply), text);
        }
        let counts = (reply.counts, reply.resealed, reply.walked_rows);
        if seen.as_ref() != Some(&counts) {
            if !output.is_json() {
                output::say(format_args!("{}", progress(&counts.0, &set.key_id)));
            }
            (seen, moved) = (Some(counts), Instant::now());
        }
        if moved.elapsed() > STALL_MAX {
            return Err(accepted(
                "it makes no progress, and the leader's log says why",
            ));
        }
        sleep(LOOK_PAUSE).await;
    }
}

/// The cluster has the change in its log, and the command does not see it end.
fn accepted(why: &str) -> Ending {
    Ending::Unknown(anyhow!(
        "the change was accepted, and goes on by itself once it can; {why}: see `helve data-key status`"
    ))
}

fn progress(counts: &[helve_proto::v1::DataKeyCount], key_id: &str) -> String {
    let all: u64 = counts.iter().map(|count| count.records).sum();
    let done = counts.iter().filter(|count| count.key_id == key_id);
    let done: u64 = done.map(|count| count.records).sum();
    format!("{} of {} values", count(done), count(all))
}

/// The first endpoint that answers.
async fn first(
    cluster: &ClusterArgs,
) -> Result<(ClusterServiceClient<NodeConnection>, DataKeyStatusReply), Ending> {
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
    client: &mut ClusterServiceClient<NodeConnection>,
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
        lines.push("values under other keys are being sealed again".to_owned());
    }
    let held = match &report.held[..] {
        [] => "none".to_owned(),
        held => held.join(", "),
    };
    lines.push(format!("keys held: {held}"));
    for counted in &report.counts {
        lines.push(format!(
            "{}: {} values, and {} kept for retries",
            named(&counted.key_id),
            count(counted.records),
            count(counted.kept)
        ));
    }
    if report.partial {
        lines.push("not all values were counted within --timeout: pass a longer one".to_owned());
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use helve_proto::v1::DataKeyCount;

    use super::*;

    #[test]
    fn values_are_counted_in_millions() {
        let reply = DataKeyStatusReply {
            counts: vec![DataKeyCount {
                key_id: "k".into(),
                records: 12_345_678,
                kept: 12_345_678,
            }],
            ..Default::default()
        };
        assert_eq!(progress(&reply.counts, "k"), "12.35M of 12.35M values");
        let page = text(&report(reply));
        assert!(
            page.contains("key k: 12.35M values, and 12.35M kept for retries"),
            "{page}"
        );
        assert!(page.contains("keys held: none\n"), "{page}");
    }
}
