//! What must be true of `deploy/compose.yaml` for those who may not: who has no token, no certificate, no key, or only a disk.

use anyhow::{Context as _, Result, ensure};
use helve_client::{KeyOptions, StateTool as _};
use helve_tests::{caller::Caller, on_disk::files_with, promise};
use serde_json::json;
use tonic::Code;

use crate::{
    engine::docker,
    project::{Project, SEATS, node},
    secrets::Secrets,
};

/// A key and a value that stand nowhere else.
const KEY: &str = "compose/known-by-its-name";
const VALUE: &str = "a-value-that-no-disk-shows";
const AUDIT_LOG: &str = "/var/lib/helve/audit.log";

pub(crate) async fn who_speaks_plain_text_or_shows_no_token_is_refused(
    project: &Project,
) -> Result<()> {
    let tls = project.secrets().await?.tls()?;
    for seat in SEATS {
        let address = project.address(seat);
        let plain = Caller::new(address).status().await;
        promise!(
            plain.is_err(),
            "node {seat} answers in plain text: {plain:?}"
        );
        let stranger = Caller::over(address, &tls)?.status().await;
        let code = stranger.as_ref().map_err(tonic::Status::code);
        promise!(
            code == Err(Code::Unauthenticated),
            "node {seat} answers without a token: {stranger:?}"
        );
    }
    Ok(())
}

pub(crate) async fn each_container_holds_the_secrets_that_it_needs_and_no_others(
    project: &Project,
) -> Result<()> {
    let signing = ["ca/ca.crt", "ca/ca.key"].map(str::to_owned);
    let callers = ["clients/ca.crt", "clients/cart.token"].map(str::to_owned);
    let all = held(project, "init").await?;
    for seat in SEATS {
        let held = held(project, &node(seat)).await?;
        let others = [&signing[..], &callers].concat();
        promise!(
            held.iter().all(|name| name.starts_with("nodes/"))
                && held.len() + others.len() == all.len(),
            "node {seat} holds {held:?} of {all:?}"
        );
    }
    project
        .compose(&["--profile", "cart", "up", "--detach"])
        .await?;
    for replica in ["cart-1", "cart-2"] {
        let held = held(project, replica).await?;
        promise!(held == callers, "{replica} holds {held:?}");
    }
    Ok(())
}

/// The files that a service's container could open.
async fn held(project: &Project, service: &str) -> Result<Vec<String>> {
    Secrets::of(&project.container(service).await?)
        .await?
        .names()
}

pub(crate) async fn no_disk_shows_a_value(project: &Project) -> Result<()> {
    let keys = project.client(&SEATS).await?.keys(KeyOptions::shared());
    keys.store(KEY, &json!(VALUE)).await?;
    for seat in SEATS {
        // It answers once it has applied the write.
        let keys = project.client(&[seat]).await?.keys(KeyOptions::shared());
        ensure!(keys.retrieve(KEY).await? == Some(json!(VALUE)));
        let directory = tempfile::tempdir()?;
        let to = directory
            .path()
            .to_str()
            .context("temporary paths are UTF-8")?;
        let from = format!("{}:/var/lib/helve/.", project.container(&node(seat)).await?);
        docker(&["cp", &from, to]).await?;
        // Names are not sealed: who finds that one would find the value, too.
        let logged = files_with(&directory.path().join("raft"), KEY.as_bytes())?;
        ensure!(!logged.is_empty(), "node {seat} has not logged the write");
        let shown = files_with(directory.path(), VALUE.as_bytes())?;
        promise!(shown.is_empty(), "node {seat} shows a value: {shown:?}");
    }
    Ok(())
}

pub(crate) async fn each_node_keeps_an_audit_log_that_is_whole(project: &Project) -> Result<()> {
    for seat in SEATS {
        let service = node(seat);
        let verify = [
            "exec", "-T", &service, "helve", "audit", "verify", AUDIT_LOG,
        ];
        project.compose(&verify).await?;
    }
    Ok(())
}
