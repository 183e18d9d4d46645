//! What the archive refuses: others beside it, wrong tokens, damage, full disks, and points in time
//! that it does not reach.

use std::fs;

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use helve_node::backup::{PlainHttp, place::Place};
use helve_proto::{
    command::v1::Command,
    peer::v1::{LogEntry, LogId, log_entry::Payload},
    v1::{
        FollowLogPart, FollowLogRequest, LogPiece, Quotas, StateDigestRequest, TokenRole,
        cluster_service_client::ClusterServiceClient, follow_log_part::Part,
    },
};
use helve_tests::{
    archive::Following,
    caller::{Caller, with_deadline},
    fault::{self, disk::Disk},
    promise,
    token::grant,
    wait::PATIENCE,
};
use prost::Message as _;
use rustix::process::Signal;
use tokio::time::timeout;
use tonic::Code;

use super::{
    super::{back_up, helve, refusal, report, restore, text, verify},
    MINTS, begin, has_exactly, minted, restored,
};
use crate::{access::Guarded, binary, nodes};

#[tokio::test(flavor = "multi_thread")]
async fn archive_says_how_far_it_reaches_and_takes_one_command_alone() -> Result<()> {
    let cluster = nodes(1).start().await?;
    let directory = tempfile::tempdir()?;
    let (to, data) = (directory.path().join("to"), directory.path().join("data"));
    let endpoint = cluster.endpoints().join(",");
    let mut following = begin(&endpoint, &to).await?;
    let mut all = Vec::new();
    let last = minted(&cluster, &mut all, MINTS).await?;
    following.archives(last).await?;
    let mut second = Following::start(&binary(), &endpoint, &to, &[])?;
    let status = second.ended().await?;
    let said = second.pages();
    promise!(
        status.code() == Some(2) && said.contains("end it first"),
        "{status}: {said}"
    );
    // A backup is made beside it.
    report(&back_up(&cluster, 1, &to).await?)?;
    following.end(Signal::TERM).await?;

    let reached = following.archived().await?;
    let beyond = (reached + 1_000).to_string();
    let far = refusal(&restore(&to, &data, &["--to-revision", &beyond]).await?, 2)?;
    promise!(
        far.contains("reaches up to revision") && far.contains("--to-latest") && !data.exists(),
        "{far}"
    );
    let future = restore(&to, &data, &["--to-time", "2999-01-01T00:00:00Z"]).await?;
    let future = refusal(&future, 2)?;
    promise!(future.contains("reaches up to"), "{future}");
    let early = refusal(&restore(&to, &data, &["--to-revision", "0"]).await?, 2)?;
    promise!(early.contains("no backup is as old"), "{early}");
    let wrong = restore(&to, &data, &["--to-time", "yesterday"]).await?;
    let wrong = refusal(&wrong, 2)?;
    promise!(wrong.contains("is no time"), "{wrong}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn removed_place_ends_the_command_with_what_to_do() -> Result<()> {
    let cluster = nodes(1).start().await?;
    let directory = tempfile::tempdir()?;
    let to = directory.path().join("to");
    let endpoint = cluster.endpoints().join(",");
    let mut following = begin(&endpoint, &to).await?;
    let mut all = Vec::new();
    let last = minted(&cluster, &mut all, MINTS).await?;
    following.archives(last).await?;
    // In one step: the command may write a segment meanwhile.
    fs::rename(&to, directory.path().join("removed"))?;
    minted(&cluster, &mut all, 1).await?;
    let status = following.ended().await?;
    let said = following.pages();
    promise!(
        status.code() == Some(4) && said.contains("its disk was unmounted") && !to.exists(),
        "{status}: {said}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_archive_is_named_and_not_restored() -> Result<()> {
    let mut cluster = nodes(1).start().await?;
    let directory = tempfile::tempdir()?;
    let (to, data) = (directory.path().join("to"), directory.path().join("data"));
    let endpoint = cluster.endpoints().join(",");
    let mut following = begin(&endpoint, &to).await?;
    let mut all = Vec::new();
    let last = minted(&cluster, &mut all, MINTS).await?;
    following.archives(last).await?;
    following.end(Signal::TERM).await?;
    let mut segments = Vec::new();
    for run in fs::read_dir(to.join("log"))? {
        let run = run?.path();
        if run.is_dir() {
            for segment in fs::read_dir(run)? {
                segments.push(segment?.path());
            }
        }
    }
    segments.sort();
    let (damaged, whole) = (&segments[0], fs::read(&segments[0])?);
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    fs::write(damaged, &flipped)?;
    let said = String::from_utf8(verify(&to).await?.stdout)?;
    promise!(said.contains("checksum"), "{said}");
    let refused = refusal(&restore(&to, &data, &["--to-latest"]).await?, 2)?;
    promise!(
        refused.contains(text(damaged)?) && !data.exists(),
        "{refused}"
    );
    fs::write(damaged, &whole)?;
    report(&verify(&to).await?)?;
    restored(&mut cluster, &to, &["--to-latest"]).await?;
    let expected: Vec<_> = all.iter().collect();
    has_exactly(&cluster, &expected).await
}

#[tokio::test(flavor = "multi_thread")]
async fn log_is_sent_to_an_operator_alone() -> Result<()> {
    let guarded = Guarded::of(nodes(1)).await?;
    let directory = tempfile::tempdir()?;
    let to = directory.path().join("to");
    let endpoint = guarded.cluster.endpoints().join(",");
    let mut without = Following::start(&binary(), &endpoint, &to, &[])?;
    let status = without.ended().await?;
    promise!(status.code() == Some(2), "{status}: {}", without.pages());
    let file = guarded.operator_file();
    let with_token = ["--token-file", file.as_str()];
    let made = ["backup", text(&to)?, "--endpoints", &endpoint];
    report(&helve(&[&made[..], &with_token].concat()).await?)?;
    let mut without = Following::start(&binary(), &endpoint, &to, &[])?;
    let status = without.ended().await?;
    promise!(status.code() == Some(2), "{status}: {}", without.pages());
    // The command asks for the status first: only the call itself shows whom it is refused to.
    guarded.tenant("acme", Quotas::default()).await?;
    let admin = guarded
        .token(grant("acme", TokenRole::Admin, "boss"))
        .await?;
    let stranger = Caller::new(guarded.cluster.listeners(1).client);
    for (caller, code) in [
        (stranger, Code::Unauthenticated),
        (guarded.caller(1, &admin), Code::PermissionDenied),
    ] {
        let mut client = ClusterServiceClient::new(caller.line());
        let asked = client.follow_log(with_deadline(FollowLogRequest::default()));
        let refused = asked.await.map(drop).map_err(|status| status.code());
        promise!(refused == Err(code), "{refused:?}, not {code:?}");
    }
    let mut operator = Following::start(&binary(), &endpoint, &to, &with_token)?;
    operator.archives(0).await?;
    let status = operator.end(Signal::TERM).await?;
    promise!(status.code() == Some(0), "{status}: {}", operator.pages());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn archive_that_a_full_disk_ends_goes_on_where_it_was() -> Result<()> {
    if fault::left_out("a disk for an archive", Disk::missing()).is_some() {
        return Ok(());
    }
    let directory = tempfile::tempdir()?;
    let mount = directory.path().join("disk");
    fs::create_dir(&mount)?;
    let disk = Disk::mount(&mount)?;
    let to = mount.join("to");
    let mut cluster = nodes(1).start().await?;
    let endpoint = cluster.endpoints().join(",");
    let mut following = begin(&endpoint, &to).await?;
    let mut all = Vec::new();
    let last = minted(&cluster, &mut all, MINTS).await?;
    following.archives(last).await?;
    disk.switch(|switches| switches.capacity_bytes = 1);
    let last = minted(&cluster, &mut all, MINTS).await?;
    let status = following.ended().await?;
    let said = following.pages();
    promise!(
        status.code() == Some(4) && said.contains("free space"),
        "{status}: {said}"
    );
    disk.mend();
    report(&verify(&to).await?)?;
    let mut following = begin(&endpoint, &to).await?;
    following.archives(last).await?;
    following.end(Signal::TERM).await?;
    restored(&mut cluster, &to, &["--to-latest"]).await?;
    let expected: Vec<_> = all.iter().collect();
    has_exactly(&cluster, &expected).await
}

#[tokio::test(flavor = "multi_thread")]
async fn log_is_not_sent_behind_an_entry_that_it_lacks() -> Result<()> {
    let cluster = nodes(1).start().await?;
    let mut all = Vec::new();
    let last = minted(&cluster, &mut all, MINTS).await?;
    let caller = cluster.caller(1);
    let newest = caller.state_digest(StateDigestRequest {}).await?;
    let mut client = ClusterServiceClient::new(caller.channel());
    for (after, term, said) in [
        (all[0].revision, 99, "and of term 99"),
        // Though nothing may follow it yet.
        (newest.applied_index, 99, "and of term 99"),
        (last + 1_000, 0, "is not reached"),
    ] {
        let parts = client.follow_log(FollowLogRequest { after, term }).await?;
        let mut parts = parts.into_inner();
        let status = loop {
            match timeout(PATIENCE, parts.message()).await {
                Ok(Ok(Some(FollowLogPart {
                    part: Some(Part::Begin(_)),
                }))) => {}
                Ok(Ok(sent)) => bail!("{sent:?} was sent behind entry {after}"),
                Ok(Err(status)) => break status,
                Err(_) => bail!("it waits for what follows entry {after}"),
            }
        };
        promise!(
            status.code() == Code::InvalidArgument && status.message().contains(said),
            "{status:?}"
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn archive_ends_once_its_nodes_are_of_another_cluster() -> Result<()> {
    let mut cluster = nodes(1).start().await?;
    let directory = tempfile::tempdir()?;
    let to = directory.path().join("to");
    let endpoint = cluster.endpoints().join(",");
    let mut following = begin(&endpoint, &to).await?;
    let mut all = Vec::new();
    let last = minted(&cluster, &mut all, MINTS).await?;
    following.archives(last).await?;
    // A restore founds a cluster of its own, at the same address.
    restored(&mut cluster, &to, &["--to-latest"]).await?;
    let status = following.ended().await?;
    let said = following.pages();
    promise!(
        status.code() == Some(2) && said.contains("of another cluster by now"),
        "{status}: {said}"
    );
    report(&verify(&to).await?)?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn archived_entry_of_a_newer_version_is_not_restored() -> Result<()> {
    let cluster = nodes(1).start().await?;
    let directory = tempfile::tempdir()?;
    let (to, data) = (directory.path().join("to"), directory.path().join("data"));
    report(&back_up(&cluster, 1, &to).await?)?;
    let place = Place::open_to_follow(&to, PlainHttp::Refused)?;
    let cluster_id = cluster.status(1).await?.cluster_id;
    let tip = place.tip(&cluster_id).await?;
    let mut tip = tip.context("there is a backup")?;
    let command = Command {
        feature_level: 1_000,
        ..Command::default()
    };
    let entry = LogEntry {
        format: 1,
        log_id: Some(LogId {
            term: tip.last.term,
            index: tip.last.index + 1,
        }),
        payload: Some(Payload::Command(command.encode_to_vec().into())),
    };
    let mut segment = tip.segment(&cluster_id);
    segment.add(&LogPiece {
        entries: vec![entry.encode_to_vec().into()],
        proof: Bytes::new(),
    })?;
    place.keep(&mut tip, segment.close()).await?;
    let refused = refusal(&restore(&to, &data, &["--to-latest"]).await?, 2)?;
    promise!(
        refused.contains("takes feature level 1000") && !data.exists(),
        "{refused}"
    );
    // The backup itself is not newer.
    report(&restore(&to, &data, &[]).await?)?;
    Ok(())
}
