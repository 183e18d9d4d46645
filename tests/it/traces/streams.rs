//! Spans of calls that stream: a watch with its beginning, its first change and its end, a backup
//! with its phases, and a log that is followed.

use anyhow::{Context as _, Result, ensure};
use helve_node::limits;
use helve_proto::v1::{
    BackupRequest, FollowLogRequest, WatchKeys, WatchReply, WatchRequest,
    cluster_service_client::ClusterServiceClient, follow_log_part, watch_request::Target,
    watch_service_client::WatchServiceClient,
};
use tonic::Streaming;

use super::{
    super::nodes,
    NOT_SAMPLED, SAMPLED, SPAN_ID,
    collector::{Collector, Seen, part},
    store, traced,
};

/// The keys that `store` writes.
fn keys(after: Option<u64>) -> WatchRequest {
    WatchRequest {
        target: Some(Target::Keys(WatchKeys {
            prefix: "app/".to_owned(),
            ..WatchKeys::default()
        })),
        after,
        ..WatchRequest::default()
    }
}

async fn next(parts: &mut Streaming<WatchReply>) -> Result<WatchReply> {
    parts.message().await?.context("the watch ended")
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_is_one_span_with_its_first_change_and_its_end() -> Result<()> {
    let collector = Collector::start().await?;
    let setup = nodes(1).with("HELVE_OTLP_ENDPOINT", &collector.url());
    let cluster = setup.start().await?;
    let caller = cluster.caller(1);
    let mut client = WatchServiceClient::new(caller.line());
    let watched = client.watch(traced(keys(None), &[SAMPLED])?).await?;
    let mut parts = watched.into_inner();
    let revision = next(&mut parts).await?.revision;
    for _ in 0..3 {
        store(&caller, &[]).await?;
        while next(&mut parts).await?.changes.is_empty() {}
    }
    drop(parts);
    let ended = |spans: &[Seen]| {
        let watch = part(spans, "Watch", SPAN_ID)?;
        part(spans, "read index", &watch.id)?;
        part(spans, "first change", &watch.id)?;
        Some(watch.clone())
    };
    let watch = collector.finds("the spans of a watch", ended).await?;
    assert_eq!(
        (watch.tenant.as_str(), watch.reason.as_str()),
        ("default", "")
    );
    let spans = collector.spans();
    let of_watch = spans.iter().filter(|span| span.parent == watch.id);
    // The third one is the wait for the rows of the first read.
    assert!(of_watch.count() <= 3, "{spans:#?}");

    let unsampled = client.watch(traced(keys(None), &[NOT_SAMPLED])?).await?;
    next(&mut unsampled.into_inner()).await?;
    let ahead = keys(Some(revision + 1_000_000));
    let refused = client.watch(traced(ahead, &[SAMPLED])?).await?;
    ensure!(
        refused.into_inner().message().await.is_err(),
        "a revision that is not reached is watched"
    );
    let failed = |spans: &[Seen]| {
        let mut watches = spans.iter().filter(|span| span.name == "Watch");
        watches.find(|span| span.reason == "BAD_REQUEST").cloned()
    };
    collector.finds("the reason of an end", failed).await?;
    let spans = collector.spans();
    let watches = spans.iter().filter(|span| span.name == "Watch");
    assert_eq!(watches.count(), 2, "{spans:#?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn backup_is_one_span_with_its_phases() -> Result<()> {
    let collector = Collector::start().await?;
    let setup = nodes(1).with("HELVE_OTLP_ENDPOINT", &collector.url());
    let cluster = setup.start().await?;
    let caller = cluster.caller(1);
    store(&caller, &[]).await?;
    let mut client = ClusterServiceClient::new(caller.line())
        .max_decoding_message_size(limits::MESSAGE_BYTES_MAX);
    let backup = traced(BackupRequest::default(), &[SAMPLED])?;
    let mut parts = client.backup(backup).await?.into_inner();
    while parts.message().await?.is_some() {}
    let phases = |spans: &[Seen]| {
        let backup = part(spans, "Backup", SPAN_ID)?;
        for phase in ["read index", "snapshot", "describe", "send"] {
            part(spans, phase, &backup.id)?;
        }
        Some(backup.clone())
    };
    let backup = collector.finds("the spans of a backup", phases).await?;
    assert_eq!(backup.reason, "");
    let spans = collector.spans();
    let of_backup = spans.iter().filter(|span| span.parent == backup.id);
    // The fifth one is the wait for the rows.
    assert!(of_backup.count() <= 5, "{spans:#?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn followed_log_is_one_span_with_its_end() -> Result<()> {
    let collector = Collector::start().await?;
    let setup = nodes(1).with("HELVE_OTLP_ENDPOINT", &collector.url());
    let cluster = setup.start().await?;
    let caller = cluster.caller(1);
    store(&caller, &[]).await?;
    let mut client = ClusterServiceClient::new(caller.line());
    let followed = traced(FollowLogRequest::default(), &[SAMPLED])?;
    let mut parts = client.follow_log(followed).await?.into_inner();
    loop {
        let next = parts.message().await?.context("the log ended")?;
        // A quorum was asked by then.
        if matches!(next.part, Some(follow_log_part::Part::Reached(_))) {
            break;
        }
    }
    drop(parts);
    let ended = |spans: &[Seen]| part(spans, "FollowLog", SPAN_ID).cloned();
    let follow = collector.finds("the span of a followed log", ended).await?;
    assert_eq!(
        (follow.tenant.as_str(), follow.reason.as_str()),
        ("default", "")
    );
    let spans = collector.spans();
    let mut of_follow = spans.iter().filter(|span| span.parent == follow.id);
    assert!(of_follow.next().is_none(), "{spans:#?}");

    let unsampled = traced(FollowLogRequest::default(), &[NOT_SAMPLED])?;
    let mut parts = client.follow_log(unsampled).await?.into_inner();
    parts.message().await?.context("the log ended")?;
    drop(parts);
    let ahead = FollowLogRequest {
        after: 1_000_000,
        ..FollowLogRequest::default()
    };
    let ahead = traced(ahead, &[SAMPLED])?;
    let mut parts = client.follow_log(ahead).await?.into_inner();
    while let Ok(next) = parts.message().await {
        ensure!(next.is_some(), "an entry that is not reached is followed");
    }
    let failed = |spans: &[Seen]| {
        let mut follows = spans.iter().filter(|span| span.name == "FollowLog");
        follows.find(|span| span.reason == "BAD_REQUEST").cloned()
    };
    collector.finds("the reason of an end", failed).await?;
    let spans = collector.spans();
    let follows = spans.iter().filter(|span| span.name == "FollowLog");
    assert_eq!(follows.count(), 2, "{spans:#?}");
    Ok(())
}
