//! Nodes that must not start: each says which flag is at fault and what to do, and ends with status 2.

mod audit;
mod tls;

use std::{ffi::OsString, fs, net::TcpListener, os::unix::fs::PermissionsExt as _, path::Path};

use anyhow::Result;
use helve_node::config::token_text;
use helve_tests::{
    address::{Listeners, next_loopback},
    fault::{
        self,
        disk::{Access, Disk},
    },
    ledger::Ledger,
    process::{Process, Start},
    wait::{Look, until},
};
use serde_json::{Map, Value};
use tempfile::TempDir;

use super::{binary, nodes};

const REFUSED: i32 = 2;

/// The arguments of a node that would start, to spoil.
struct Arguments {
    flags: Vec<(&'static str, String)>,
    directory: TempDir,
}

impl Arguments {
    fn good() -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let own = Listeners::of_seat(next_loopback(), 1);
        let flags = vec![
            ("--id", "1".to_owned()),
            (
                "--data-dir",
                directory.path().join("data").display().to_string(),
            ),
            ("--listen", own.client.to_string()),
            ("--peer-listen", own.peer.to_string()),
            ("--http-listen", own.http.to_string()),
            ("--peers", format!("1={}", own.peer)),
        ];
        fs::create_dir(directory.path().join("data"))?;
        Ok(Self { flags, directory })
    }

    fn with(mut self, flag: &'static str, value: impl Into<String>) -> Self {
        self.flags.retain(|(name, _)| *name != flag);
        self.flags.push((flag, value.into()));
        self
    }

    fn without(mut self, flag: &str) -> Self {
        self.flags.retain(|(name, _)| *name != flag);
        self
    }

    fn value(&self, flag: &str) -> String {
        self.flags
            .iter()
            .find(|(name, _)| *name == flag)
            .map(|(_, value)| value.clone())
            .unwrap_or_default()
    }

    fn process(&self) -> Process {
        let flags = self
            .flags
            .iter()
            .flat_map(|(flag, value)| [OsString::from(flag), value.into()]);
        let start = Start {
            binary: binary(),
            arguments: std::iter::once("serve".into()).chain(flags).collect(),
            environment: Vec::new(),
        };
        Process::new(start, self.directory.path().join("log"))
    }

    /// Starts the node, which must refuse and name the flag.
    async fn assert_refused(self, flag: &str) -> Result<()> {
        let mut process = self.process();
        process.start()?;
        let status = process.stopped().await?;
        let said = process.log_tail();
        assert_eq!(status.code(), Some(REFUSED), "{:?}\n{said}", self.flags);
        assert!(
            said.contains(flag),
            "the message does not name {flag}:\n{said}"
        );
        assert!(!said.contains("panicked"), "{said}");
        Ok(())
    }
}

#[tokio::test]
async fn a_missing_or_malformed_flag_is_refused() -> Result<()> {
    Arguments::good()?
        .without("--id")
        .assert_refused("--id")
        .await?;
    Arguments::good()?
        .with("--id", "one")
        .assert_refused("--id")
        .await?;
    Arguments::good()?
        .with("--id", "0")
        .assert_refused("--id")
        .await?;
    Arguments::good()?
        .with("--listen", "nowhere")
        .assert_refused("--listen")
        .await?;
    Arguments::good()?
        .with("--peers", "1")
        .assert_refused("--peers")
        .await?;
    Arguments::good()?
        .with("--no-such-flag", "1")
        .assert_refused("--no-such-flag")
        .await
}

#[tokio::test]
async fn peers_without_the_own_seat_are_refused() -> Result<()> {
    Arguments::good()?
        .with("--peers", "2=127.0.0.1:7401,3=127.0.0.1:7402")
        .assert_refused("--peers")
        .await
}

#[tokio::test]
async fn an_operators_token_is_refused_unless_it_comes_from_a_file_of_its_owner() -> Result<()> {
    const FLAG: &str = "--operator-token-file";
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("token");
    let path = file.display().to_string();
    let token = token_text(&[7; 32]);
    let asked = || anyhow::Ok(Arguments::good()?.with("--auth", "tokens"));
    asked()?.with(FLAG, &*path).assert_refused(FLAG).await?;
    fs::write(&file, "")?;
    asked()?.with(FLAG, &*path).assert_refused(FLAG).await?;
    fs::write(&file, &*token)?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644))?;
    asked()?
        .with(FLAG, &*path)
        .assert_refused("chmod 600")
        .await?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600))?;
    Arguments::good()?
        .with(FLAG, &*path)
        .assert_refused("--auth tokens")
        .await?;
    asked()?
        .with(FLAG, &**token)
        .assert_refused("command line")
        .await?;
    asked()?
        .with("--operator-token", &**token)
        .assert_refused("--operator-token")
        .await
}

#[tokio::test]
async fn a_listener_beyond_loopback_is_refused_without_insecure() -> Result<()> {
    for flag in ["--listen", "--peer-listen", "--http-listen"] {
        Arguments::good()?
            .with(flag, "0.0.0.0:7499")
            .assert_refused("--insecure")
            .await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_port_in_use_is_refused() -> Result<()> {
    for flag in ["--listen", "--peer-listen", "--http-listen"] {
        let arguments = Arguments::good()?;
        let _in_use = TcpListener::bind(arguments.value(flag))?;
        arguments.assert_refused(flag).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_data_directory_that_cannot_be_used_is_refused() -> Result<()> {
    let arguments = Arguments::good()?;
    let file = arguments.directory.path().join("file");
    fs::write(&file, "not a directory")?;
    let below = file.join("data");
    arguments
        .with("--data-dir", file.display().to_string())
        .assert_refused("--data-dir")
        .await?;
    Arguments::good()?
        .with("--data-dir", below.display().to_string())
        .assert_refused("--data-dir")
        .await?;
    // The directory itself is made; its parent is not, so that a typing error makes no tree.
    let arguments = Arguments::good()?;
    let absent = arguments.directory.path().join("absent");
    let below = absent.join("data").display().to_string();
    arguments
        .with("--data-dir", below)
        .assert_refused("--data-dir")
        .await?;
    // The kernel's own directories take no files, not even from root.
    for read_only in ["/proc/self", "/proc/helve"] {
        Arguments::good()?
            .with("--data-dir", read_only)
            .assert_refused("--data-dir")
            .await?;
    }
    Arguments::good()?
        .with("--data-dir", "")
        .assert_refused("--data-dir")
        .await
}

#[tokio::test]
async fn a_data_directory_on_a_read_only_disk_is_refused() -> Result<()> {
    if fault::left_out("a read-only disk", Disk::missing()).is_some() {
        return Ok(());
    }
    let arguments = Arguments::good()?;
    let disk = Disk::mount(Path::new(&arguments.value("--data-dir")))?;
    disk.switch(|switches| switches.access = Access::ReadOnly);
    arguments.assert_refused("--data-dir").await?;
    drop(disk);
    Ok(())
}

#[tokio::test]
async fn a_data_directory_of_a_running_node_is_refused_and_the_node_goes_on() -> Result<()> {
    let mut cluster = nodes(1).start().await?;
    let directory = cluster.data_directory(1);
    Arguments::good()?
        .with("--data-dir", directory.display().to_string())
        .assert_refused("--data-dir")
        .await?;
    cluster.node_mut(1).assert_running()?;
    let ledger = Ledger::new("carts");
    ledger.mint(&[cluster.caller(1)]).await?;
    ledger.check(&cluster).await
}

#[tokio::test]
async fn a_data_directory_of_another_node_is_refused_and_stays_whole() -> Result<()> {
    let mut cluster = nodes(1).start().await?;
    let ledger = Ledger::new("carts");
    ledger.mint(&[cluster.caller(1)]).await?;
    cluster.kill(1)?;
    let arguments = Arguments::good()?.with(
        "--data-dir",
        cluster.data_directory(1).display().to_string(),
    );
    let peers = format!("2={}", arguments.value("--peer-listen"));
    arguments
        .with("--id", "2")
        .with("--peers", peers)
        .assert_refused("--id")
        .await?;
    cluster.start(1)?;
    cluster.ready(1).await?;
    ledger.check(&cluster).await
}

#[tokio::test]
async fn a_data_directory_of_another_cluster_is_refused() -> Result<()> {
    let strange = tempfile::tempdir()?;
    let strange = strange.path().join("data");
    {
        let mut other = nodes(1).start().await?;
        other.kill(1)?;
        copy(&other.data_directory(1), &strange)?;
    }
    let mut cluster = nodes(3).start().await?;
    let ledger = Ledger::new("carts");
    ledger.mint(&[cluster.caller(1)]).await?;
    cluster.kill(1)?;
    let own = cluster.data_directory(1);
    fs::rename(&own, own.with_extension("aside"))?;
    fs::rename(&strange, &own)?;
    cluster.start(1)?;
    let status = cluster.node_mut(1).stopped().await?;
    let said = cluster.node(1).log_tail();
    assert_eq!(status.code(), Some(REFUSED), "{said}");
    assert!(said.contains("--data-dir"), "{said}");
    ledger.check(&cluster).await
}

#[tokio::test]
async fn a_stranger_at_a_members_address_is_named_by_the_others_which_go_on() -> Result<()> {
    let strange = tempfile::tempdir()?;
    let strange = strange.path().join("data");
    {
        let mut other = nodes(1).start().await?;
        other.kill(1)?;
        copy(&other.data_directory(1), &strange)?;
    }
    let mut cluster = nodes(3).start().await?;
    let ledger = Ledger::new("carts");
    ledger.mint(&[cluster.caller(1)]).await?;
    cluster.kill(1)?;
    fs::rename(
        &strange,
        cluster.data_directory(1).with_extension("strange"),
    )?;
    let data = cluster.data_directory(1).with_extension("strange");
    let alone = format!("1={}", cluster.listeners(1).peer);
    let node = cluster.node_mut(1);
    node.set_argument("--data-dir", &data.display().to_string())?;
    // It lists no node that could tell it that it is in the wrong place.
    node.set_argument("--peers", &alone)?;
    cluster.start(1)?;
    cluster.ready(1).await?;
    until("the others to name the stranger", async || {
        let mut is_led = false;
        for seat in [2, 3] {
            let node = match cluster.status(seat).await {
                Ok(reply) => reply.node.unwrap_or_default(),
                Err(error) => return Look::NotYet(format!("{error:#}")),
            };
            if !node.warning.contains("seat 1") || !node.ready {
                return Look::NotYet(format!("{node:?}"));
            }
            if node.id == node.leader_id {
                // It may find the stranger before one of its messages is refused.
                if !node.warning.contains("node 1 refuses") {
                    return Look::NotYet(format!("{node:?}"));
                }
                is_led = true;
            }
        }
        if is_led {
            Look::Done(())
        } else {
            Look::NotYet("no leader".to_owned())
        }
    })
    .await?;
    cluster.kill(1)?;
    ledger.mint(&[cluster.caller(2)]).await?;
    ledger.check(&cluster).await
}

#[tokio::test]
async fn a_data_directory_of_a_newer_format_is_refused_and_stays_whole() -> Result<()> {
    let mut cluster = nodes(1).start().await?;
    let ledger = Ledger::new("carts");
    ledger.mint(&[cluster.caller(1)]).await?;
    cluster.kill(1)?;
    let directory = cluster.data_directory(1);
    let aside = directory.with_extension("aside");
    copy(&directory, &aside)?;
    let identity = directory.join("node.json");
    let mut fields: Map<String, Value> = serde_json::from_slice(&fs::read(&identity)?)?;
    let format = fields.insert("format".to_owned(), 99.into());
    assert!(format.is_some(), "the identity names no format: {fields:?}");
    fs::write(&identity, serde_json::to_vec(&fields)?)?;
    cluster.start(1)?;
    let status = cluster.node_mut(1).stopped().await?;
    let said = cluster.node(1).log_tail();
    assert_eq!(status.code(), Some(REFUSED), "{said}");
    assert!(said.contains("--data-dir") && said.contains("99"), "{said}");

    fs::remove_dir_all(&directory)?;
    fs::rename(&aside, &directory)?;
    cluster.start(1)?;
    cluster.ready(1).await?;
    ledger.check(&cluster).await
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
