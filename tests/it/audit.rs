//! What a node's audit log says of the calls that it was asked for, and what becomes of calls while it cannot be written.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Output},
};

use anyhow::{Context as _, Result, bail};
use helve_proto::{
    Reason,
    v1::{
        CountRequest, ExchangeCall, ExchangeRequest, GetRequest, ListRequest, MintRequest,
        StoreRequest, call_service_client::CallServiceClient, exchange_answer::Answer,
        exchange_call::Call,
    },
};
use helve_tests::{
    caller::reason,
    cluster::Cluster,
    fault::{self, disk::Disk},
    wait::{Look, until},
};
use serde_json::Value;
use tempfile::TempDir;
use tonic::Code;

use super::{binary, command_line::ABSENT, nodes};

const SECRET: &str = "a value that no other may read";

/// One node with an audit log, in a directory of its own.
struct Audited {
    cluster: Cluster,
    directory: TempDir,
}

impl Audited {
    async fn start(classes: &str) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        fs::create_dir(directory.path().join("log"))?;
        Self::start_in(directory, classes).await
    }

    async fn start_in(directory: TempDir, classes: &str) -> Result<Self> {
        let path = directory.path().join("log/audit");
        let cluster = nodes(1)
            .with("HELVE_AUDIT_LOG", &path.display().to_string())
            .with("HELVE_AUDIT", classes)
            .start()
            .await?;
        Ok(Self { cluster, directory })
    }

    fn log(&self) -> PathBuf {
        self.directory.path().join("log/audit")
    }

    async fn mint(&self) -> Result<String, tonic::Status> {
        let minted = self.cluster.caller(1).mint(mint()).await?;
        Ok(minted.info.unwrap_or_default().name)
    }

    /// Waits until the log has whole lines with all these words.
    async fn says(&self, words: &[&str]) -> Result<String> {
        until("lines of the audit log", async || {
            let text = fs::read_to_string(self.log()).unwrap_or_default();
            match words.iter().find(|word| !text.contains(**word)) {
                None if text.ends_with('\n') => Look::Done(text),
                None => Look::NotYet(format!("a line is being written:\n{text}")),
                Some(word) => Look::NotYet(format!("`{word}` is not in\n{text}")),
            }
        })
        .await
    }

    fn verify(&self, head: &str) -> Result<Output> {
        let mut command = Command::new(binary());
        command.args(["audit", "verify", "--output", "json", "--head", head]);
        Ok(command.arg(self.log()).output()?)
    }

    /// What the node keeps apart from the log.
    fn head(&self) -> Result<String> {
        let kept = self.cluster.data_directory(1).join("audit-head");
        Ok(fs::read_to_string(kept)?.trim().to_owned())
    }
}

fn mint() -> MintRequest {
    MintRequest {
        store: "carts".to_owned(),
        owner: "ann".to_owned(),
        value: SECRET.into(),
        ..MintRequest::default()
    }
}

/// The lines about calls, by operation.
fn calls(text: &str) -> Result<Vec<(String, Value)>> {
    let lines = text.lines().map(serde_json::from_str::<Value>);
    let lines = lines.collect::<Result<Vec<_>, _>>()?;
    let calls = lines.into_iter().filter(|line| line["event"] == "call");
    let named = calls.map(|line| (line["operation"].as_str().unwrap_or("").to_owned(), line));
    Ok(named.collect())
}

fn broken_line(report: &Output) -> Result<Value> {
    let report: Value = serde_json::from_slice(&report.stdout)?;
    Ok(report["broken"]["line"].clone())
}

#[tokio::test]
async fn every_call_has_a_line_whichever_way_it_came_and_no_line_has_a_value() -> Result<()> {
    let audited = Audited::start("reads,writes,admin").await?;
    let id = audited.mint().await?;
    let caller = audited.cluster.caller(1);
    let get = GetRequest {
        store: "carts".to_owned(),
        owner: "ann".to_owned(),
        id: id.clone(),
    };
    caller.get(get).await?;
    caller
        .list(ListRequest {
            store: "carts".to_owned(),
            ..ListRequest::default()
        })
        .await?;
    let refused = caller.store(StoreRequest::default()).await;
    assert_eq!(
        refused.err().map(|status| status.code()),
        Some(Code::InvalidArgument)
    );
    caller.take_snapshot(Default::default()).await?;
    let call = ExchangeCall {
        correlation_id: 1,
        timeout_ms: 0,
        call: Some(Call::Mint(mint())),
    };
    let batch = ExchangeRequest { calls: vec![call] };
    let mut stream = CallServiceClient::new(caller.channel());
    let mut replies = stream
        .exchange(futures::stream::iter([batch]))
        .await?
        .into_inner();
    let reply = replies.message().await?.context("an answer")?;
    let answer = reply.answers.into_iter().next().and_then(|one| one.answer);
    let Some(Answer::Mint(streamed)) = answer else {
        bail!("no handle was minted over the stream: {answer:?}");
    };

    let streamed = streamed.info.context("a record")?.name;

    let words = ["\"List\"", "\"Store\"", "\"TakeSnapshot\"", &streamed];
    let text = audited.says(&words).await?;
    assert!(!text.contains(SECRET), "{text}");
    let calls = calls(&text)?;
    let of = |name: &str| {
        calls
            .iter()
            .filter(|call| call.0 == name)
            .collect::<Vec<_>>()
    };
    assert_eq!(of("Mint").len(), 2);
    let (_, minted) = of("Mint")[0];
    assert_eq!(minted["principal"], "anonymous");
    assert_eq!(minted["targets"][1]["id"], Value::String(id.clone()));
    let (_, got) = of("Get")[0];
    assert_eq!(
        (&got["outcome"], &got["status"]),
        (&"OK".into(), &"LIVE".into())
    );
    assert_eq!(got["revision"], minted["revision"]);
    assert_eq!(got["targets"][0]["id"], Value::String(id));
    let peer = got["peer"].as_str().context("where it came from")?;
    assert!(peer.starts_with("127."), "{peer}");
    assert_eq!(of("Store")[0].1["outcome"], Reason::BadKey.as_str());
    Ok(())
}

#[tokio::test]
async fn a_killed_node_goes_on_with_its_chain_and_a_changed_line_is_named() -> Result<()> {
    let mut audited = Audited::start("writes").await?;
    for _ in 0..20 {
        audited.mint().await?;
    }
    audited.says(&["\"seq\":15,"]).await?;
    audited.cluster.kill(1)?;
    audited.cluster.start(1)?;
    audited.cluster.ready(1).await?;
    audited.mint().await?;
    audited.says(&["\"resumed\""]).await?;
    audited.cluster.node(1).terminate()?;
    audited.cluster.node_mut(1).stopped().await?;
    let head = audited.head()?;
    let whole = audited.verify(&head)?;
    assert!(whole.status.success(), "{whole:?}");

    let text = fs::read_to_string(audited.log())?;
    let without = |line: usize| {
        let kept = text.lines().enumerate().filter(|(at, _)| at + 1 != line);
        kept.map(|(_, line)| format!("{line}\n"))
            .collect::<String>()
    };
    let last = text.lines().count();
    for removed in [1, 5, last] {
        fs::write(audited.log(), without(removed))?;
        let report = audited.verify(&head)?;
        assert_eq!(report.status.code(), Some(ABSENT), "{report:?}");
        assert_eq!(broken_line(&report)?, removed, "{report:?}");
    }
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_recorded_is_not_done_and_is_done_again_once_it_can_be() -> Result<()> {
    let audited = Audited::start("writes").await?;
    audited.mint().await?;
    fs::remove_dir_all(audited.directory.path().join("log"))?;
    let refused = until("calls to be refused", async || match audited.mint().await {
        Ok(id) => Look::NotYet(format!("{id} was minted")),
        Err(status) => Look::Done(status),
    })
    .await?;
    assert_eq!(reason(&refused), Some(Reason::AuditFailing));
    assert_eq!(refused.code(), Code::Unavailable);
    // No flag asked for reads to be recorded.
    let reader = audited.cluster.caller(1);
    let all = CountRequest {
        store: "carts".to_owned(),
        owner: None,
    };
    reader.count(all).await?;
    fs::create_dir(audited.directory.path().join("log"))?;
    until("calls to be served", async || {
        Look::of(audited.mint().await)
    })
    .await?;
    audited.says(&["\"Mint\""]).await?;
    Ok(())
}

#[tokio::test]
async fn on_a_full_disk_what_cannot_be_recorded_is_refused_and_nothing_is_lost() -> Result<()> {
    if fault::left_out("a full disk", Disk::missing()).is_some() {
        return Ok(());
    }
    let directory = tempfile::tempdir()?;
    fs::create_dir(directory.path().join("log"))?;
    let disk = Disk::mount(&directory.path().join("log"))?;
    let mut audited = Audited::start_in(directory, "writes").await?;
    let mut minted = vec![audited.mint().await?];
    audited.says(&[&minted[0]]).await?;
    // Room for a part of a line more.
    let room = disk.used_bytes() + 100;
    disk.switch(|switches| switches.capacity_bytes = room);
    let refused = until("calls to be refused", async || match audited.mint().await {
        Ok(id) => {
            minted.push(id);
            Look::NotYet("a mint was carried out".to_owned())
        }
        Err(status) => Look::Done(status),
    })
    .await?;
    assert_eq!(reason(&refused), Some(Reason::AuditFailing));
    assert!(disk.counts().full > 0, "the disk was never full");
    let count = async || {
        let all = CountRequest {
            store: "carts".to_owned(),
            owner: None,
        };
        audited.cluster.caller(1).count(all).await
    };
    // What was refused was not done, and reads go on.
    assert_eq!(count().await?.live, minted.len() as u64);
    disk.mend();
    let again = until("calls to be served", async || {
        Look::of(audited.mint().await)
    });
    minted.push(again.await?);
    let ids: Vec<&str> = minted.iter().map(String::as_str).collect();
    audited.says(&ids).await?;
    audited.cluster.node(1).terminate()?;
    audited.cluster.node_mut(1).stopped().await?;
    let whole = audited.verify(&audited.head()?)?;
    assert!(whole.status.success(), "{whole:?}");
    drop(disk);
    Ok(())
}
