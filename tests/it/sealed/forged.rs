//! Rows, log entries and snapshots that somebody changes on a stopped node's disk to get rights: the node does not start.

use std::{
    fs,
    path::Path,
    sync::{Arc, mpsc},
};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use helve_node::{
    limits::GROUP_ID,
    storage::{
        checkpoint::Snapshots, log_db::LogDb, log_op::LogOp, log_writer::LogWriter,
        options::StateOptions, state_db::StateDb,
    },
};
use helve_proto::{
    command::v1::{Command, SealingRow, TokenRow, command::Operation},
    peer::v1::{LogEntry, LogId, log_entry::Payload},
    v1::{CreateTokenRequest, Quotas, RevokeTokenRequest, TakeSnapshotRequest, TokenRole},
};
use helve_tests::{
    cluster::{Cluster, Setup},
    token::{Token, grant},
};
use prost::Message as _;
use tempfile::TempDir;
use tonic::Code;

use super::{REFUSED, edited::sealed_under, keys::Keys};
use crate::access::Guarded;

/// What comes before a row's own part of its key: group, no tenant, table.
const TOKENS: [u8; 6] = [0, 0, 0, 1, 0, 8];
const TENANTS: [u8; 6] = [0, 0, 0, 1, 0, 9];
const SEALING: [u8; 6] = [0, 0, 0, 1, 0, 14];
/// Where a node's first rows are in its directory.
const ROWS: &str = "state-1";
const MIGRATE: &str = "HELVE_DATA_KEY_MIGRATE";

fn key(table: [u8; 6], own: &[u8]) -> Bytes {
    [&table[..], own].concat().into()
}

/// The row of an operator's token, which no operator made.
pub(super) fn forged_token() -> Result<(Bytes, Option<Bytes>)> {
    let row = TokenRow {
        grant: Some(grant("", TokenRole::Operator, "forger")),
        ..TokenRow::default()
    };
    let row = [&[1], row.encode_to_vec().as_slice()].concat();
    Ok((key(TOKENS, &Token::new()?.hash()), Some(row.into())))
}

fn row_of(directory: &Path, key: &Bytes) -> Result<Bytes> {
    let state = StateDb::open(directory, StateOptions::default())?;
    let mut found = None;
    state.read(|view| {
        view.each_row(|at, row| {
            if at == key {
                found = Some(Bytes::copy_from_slice(row));
            }
            found.is_none()
        })
    })?;
    found.context("there is such a row")
}

/// Writes rows behind the node's back, as of an entry that is this much newer.
pub(super) fn write(
    directory: &Path,
    rows: Vec<(Bytes, Option<Bytes>)>,
    newer: u64,
) -> Result<StateDb> {
    let state = StateDb::open(directory, StateOptions::default())?;
    let LogId { term, index } = state.applied()?.context("nothing was applied")?;
    let applied = LogId {
        term,
        index: index + newer,
    };
    state.write(rows, &applied, None)?;
    state.sync()?;
    Ok(state)
}

/// Adds an entry to the log, or replaces the last one.
fn write_entry(directory: &Path, beyond: u64, payload: Payload) -> Result<()> {
    let (log, recovered) = LogDb::open(&directory.join("raft"), GROUP_ID, usize::MAX)?;
    let writer = LogWriter::start(Arc::clone(&log), &recovered)?;
    let last = recovered.last.context("the log has entries")?;
    let entry = LogEntry {
        format: 1,
        log_id: Some(LogId {
            term: last.term,
            index: last.index + beyond,
        }),
        payload: Some(payload),
    };
    let (sender, synced) = mpsc::channel();
    writer.send(LogOp::Append {
        entries: vec![entry],
        done: Box::new(move |result| sender.send(result).expect("the test waits")),
    })?;
    synced.recv()??;
    writer.stop();
    Ok(())
}

/// An entry that makes an operator's token.
fn forged_command() -> Result<Payload> {
    let request = CreateTokenRequest {
        token_hash: Token::new()?.hash(),
        grant: Some(grant("", TokenRole::Operator, "forger")),
        ..CreateTokenRequest::default()
    };
    let command = Command {
        feature_level: 2,
        operation: Some(Operation::CreateToken(request)),
        ..Command::default()
    };
    Ok(Payload::Command(command.encode_to_vec().into()))
}

/// Starts a node, which must refuse, and returns what it said.
pub(super) async fn refuses(cluster: &mut Cluster, seat: u64) -> Result<String> {
    cluster.start(seat)?;
    let status = cluster.node_mut(seat).stopped().await?;
    let log = cluster.node(seat).log_tail();
    ensure!(status.code() == Some(REFUSED), "{status}: {log}");
    let lines: Vec<_> = log.lines().rev().take(2).collect();
    Ok(lines.into_iter().rev().collect::<Vec<_>>().join("\n"))
}

pub(super) async fn stop(cluster: &mut Cluster, seat: u64) -> Result<()> {
    cluster.node(seat).terminate()?;
    cluster.node_mut(seat).stopped().await?;
    Ok(())
}

async fn revoke(guarded: &Guarded, token: &Token) -> Result<()> {
    let request = RevokeTokenRequest {
        tenant: "acme".to_owned(),
        token_hash: token.hash(),
        ..RevokeTokenRequest::default()
    };
    ensure!(guarded.operator(1).revoke_token(request).await?.existed);
    Ok(())
}

/// A node alone, with a tenant, and with a token and another one that was revoked.
struct Stopped {
    keys: Keys,
    guarded: Guarded,
    /// The id of the data key.
    key_id: String,
    kept: Token,
    revoked: Token,
    /// Of the second token, from before.
    former: Bytes,
    /// Of the tenant, from before its quotas were lowered.
    former_tenant: Bytes,
    /// All rows, from before both.
    former_rows: TempDir,
}

impl Stopped {
    async fn new() -> Result<Self> {
        let keys = Keys::new()?;
        let setup = keys.setup_of(1);
        Self::of(keys, setup).await
    }

    /// As [`Self::new`], for a test that has a cluster already.
    async fn another() -> Result<Self> {
        let keys = Keys::new()?;
        let setup = keys.setup_of(1).beside_others();
        Self::of(keys, setup).await
    }

    async fn of(keys: Keys, setup: Setup) -> Result<Self> {
        let mut guarded = Guarded::of(setup).await?;
        let key_id = sealed_under(&guarded.operator(1)).await?;
        let quotas = Quotas {
            rows: 5,
            ..Quotas::default()
        };
        guarded.tenant("acme", quotas).await?;
        let kept = grant("acme", TokenRole::Reader, "shop");
        let kept = guarded.token(kept).await?;
        let revoked = grant("acme", TokenRole::Admin, "former");
        let revoked = guarded.token(revoked).await?;
        stop(&mut guarded.cluster, 1).await?;
        let directory = guarded.cluster.data_directory(1);
        let former = row_of(&directory, &key(TOKENS, &revoked.hash()))?;
        let former_tenant = row_of(&directory, &key(TENANTS, b"acme"))?;
        let former_rows = tempfile::tempdir()?;
        copy_files(&directory.join(ROWS), &former_rows.path().join(ROWS))?;
        guarded.cluster.start(1)?;
        guarded.cluster.ready(1).await?;
        revoke(&guarded, &revoked).await?;
        let lower = Quotas { rows: 3, ..quotas };
        guarded.tenant("acme", lower).await?;
        guarded
            .operator(1)
            .take_snapshot(TakeSnapshotRequest {})
            .await?;
        stop(&mut guarded.cluster, 1).await?;
        Ok(Self {
            keys,
            guarded,
            key_id,
            kept,
            revoked,
            former,
            former_tenant,
            former_rows,
        })
    }

    /// Edits the disk, and returns what the node says that refuses it. Then all is as it was.
    async fn refused(&mut self, edit: impl FnOnce(&Path) -> Result<()>) -> Result<String> {
        let cluster = &mut self.guarded.cluster;
        let image = cluster.take_image(1)?;
        edit(&cluster.data_directory(1))?;
        let said = refuses(cluster, 1).await?;
        cluster.put_image_back(1, &image)?;
        Ok(said)
    }

    async fn refused_rows(&mut self, rows: Vec<(Bytes, Option<Bytes>)>) -> Result<String> {
        self.refused(|directory| write(directory, rows, 0).map(drop))
            .await
    }

    /// Without edits the node starts, and lets in only whom it let in before.
    async fn serves(&mut self) -> Result<()> {
        self.guarded.cluster.start(1)?;
        self.guarded.cluster.ready(1).await?;
        let kept = self.guarded.caller(1, &self.kept).status().await;
        ensure!(kept.is_ok(), "{kept:?}");
        let revoked = self.guarded.caller(1, &self.revoked).status().await;
        let code = revoked.as_ref().err().map(tonic::Status::code);
        ensure!(code == Some(Code::Unauthenticated), "{revoked:?}");
        Ok(())
    }
}

#[tokio::test]
async fn a_node_does_not_start_on_rows_of_rights_that_were_edited() -> Result<()> {
    let mut node = Stopped::new().await?;
    let revoked = key(TOKENS, &node.revoked.hash());
    let directory = node.guarded.cluster.data_directory(1);
    let sealing = row_of(&directory, &key(SEALING, b""))?;
    let begun = SealingRow {
        complete_index: 0,
        ..SealingRow::decode(&sealing[1..])?
    };
    let begun = [&sealing[..1], begun.encode_to_vec().as_slice()].concat();
    let edits = [
        ("an inserted token", vec![forged_token()?]),
        (
            "a token from before its revocation",
            vec![(revoked.clone(), Some(node.former.clone()))],
        ),
        ("a removed row", vec![(revoked, None)]),
        ("a removed quota", vec![(key(TENANTS, b"acme"), None)]),
        (
            "a quota from before it was lowered",
            vec![(key(TENANTS, b"acme"), Some(node.former_tenant.clone()))],
        ),
        ("removed sealing", vec![(key(SEALING, b""), None)]),
        (
            "sealing from before it was complete",
            vec![(key(SEALING, b""), Some(begun.into()))],
        ),
    ];
    for (edit, rows) in edits {
        let said = node.refused_rows(rows).await?;
        ensure!(
            said.contains("the record of rights and members")
                && said.contains("does not fit its disk key")
                && said.contains("replace it"),
            "{edit}: {said}"
        );
    }
    node.serves().await
}

#[tokio::test]
async fn a_node_does_not_start_on_a_log_or_a_snapshot_that_was_edited() -> Result<()> {
    let mut node = Stopped::new().await?;
    for (beyond, payload) in [(1, forged_command()?), (0, Payload::Blank(true))] {
        let said = node
            .refused(|directory| write_entry(directory, beyond, payload))
            .await?;
        ensure!(
            said.contains("log entry") && said.contains("does not fit its disk key"),
            "{said}"
        );
    }
    let forged = forged_token()?;
    // A newer snapshot would be installed at the start.
    let said = node
        .refused(|directory| {
            let aside = tempfile::tempdir()?;
            let rows = directory.join(ROWS);
            let kept = aside.path().join("rows");
            copy_files(&rows, &kept)?;
            let state = write(directory, vec![forged], 10)?;
            Snapshots::open(&directory.join("snapshots"))?.build(&state)?;
            drop(state);
            fs::remove_dir_all(&rows)?;
            copy_files(&kept, &rows)
        })
        .await?;
    ensure!(
        said.contains("the snapshot") && said.contains("does not fit its disk key"),
        "{said}"
    );
    node.serves().await
}

fn copy_files(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}

#[tokio::test]
async fn rows_of_another_directory_are_refused_and_older_ones_replayed() -> Result<()> {
    let other = Stopped::new().await?;
    let others = other.guarded.cluster.data_directory(1);
    let mut node = Stopped::another().await?;
    let said = node
        .refused(|directory| {
            fs::remove_dir_all(directory.join(ROWS))?;
            copy_files(&others.join(ROWS), &directory.join(ROWS))
        })
        .await?;
    ensure!(
        said.contains("the record of rights and members")
            && said.contains("does not fit its disk key"),
        "{said}"
    );
    // The log holds the revocation, and an entry that were missing would be noticed.
    let rows = node.guarded.cluster.data_directory(1).join(ROWS);
    fs::remove_dir_all(&rows)?;
    copy_files(&node.former_rows.path().join(ROWS), &rows)?;
    node.serves().await
}

fn remove_disk_key(directory: &Path) -> Result<()> {
    Ok(fs::remove_file(directory.join("disk-key"))?)
}

#[tokio::test]
async fn a_disk_without_its_key_is_taken_only_if_the_operator_vouches() -> Result<()> {
    let mut node = Stopped::new().await?;
    let said = node.refused(remove_disk_key).await?;
    ensure!(
        said.contains("have no disk key")
            && said.contains("replace this node")
            && said.contains("--data-key-migrate"),
        "{said}"
    );
    // As an earlier version wrote it.
    remove_disk_key(&node.guarded.cluster.data_directory(1))?;
    node.guarded.cluster.node_mut(1).set(MIGRATE, "true");
    node.serves().await?;
    stop(&mut node.guarded.cluster, 1).await?;
    node.guarded.cluster.node_mut(1).set(MIGRATE, "false");
    let said = node.refused_rows(vec![forged_token()?]).await?;
    ensure!(said.contains("does not fit its disk key"), "{said}");
    node.serves().await
}

#[tokio::test]
async fn a_disk_key_under_a_data_key_that_is_gone_is_refused_by_name() -> Result<()> {
    let mut node = Stopped::new().await?;
    let path = node.keys.0.path().join("1.key");
    let first = fs::read(&path)?;
    node.keys.add("2.key", 2)?;
    fs::remove_file(&path)?;
    let said = node.refused(|_| Ok(())).await?;
    let named = format!(
        "under key {}, which none of the given files holds",
        node.key_id
    );
    ensure!(
        said.contains("--data-key-file") && said.contains(&named),
        "{said}"
    );
    helve_tests::token::write_secret(&path, &first)?;
    node.serves().await
}
