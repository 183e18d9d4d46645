//! Backups in a bucket: of moto's server, which speaks S3 from memory. It is left out where moto is
//! not installed (`make backends` installs it).

use std::{
    env,
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Output, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use helve_tests::{
    address::next_loopback,
    cluster::Cluster,
    ledger::Ledger,
    promise,
    wait::{Look, until},
};
use tokio::process::{Child, Command};

use super::{super::nodes, MINTS, binary, lose_all, mint, refusal, report};

const BUCKET: &str = "backups";
pub(super) const TO: &str = "s3://backups/helve/prod";
const SECRET: &str = "a-very-secret-key";
/// Where moto listens, on an address that nothing else has.
const PORT: u16 = 5_000;

/// moto's server; it ends with the test.
pub(super) struct Store {
    pub(super) address: SocketAddr,
    _process: Child,
}

/// Where moto is; `None` leaves the test out, unless all backends are required.
pub(super) fn moto() -> Option<PathBuf> {
    let home = env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let path = env::var_os("PATH").unwrap_or_default();
    let installed = home.join(".cache/helve/moto/bin");
    let mut places = env::split_paths(&path).chain([installed]);
    let found = places.find(|place| place.join("moto_server").is_file());
    if found.is_none() {
        let message = "LEFT OUT: backups in a bucket: moto_server is not installed (make backends)";
        assert!(env::var_os("HELVE_REQUIRE_BACKENDS").is_none(), "{message}");
        // If standard error cannot be written, the line is lost.
        drop(writeln!(io::stderr(), "{message}"));
    }
    found.map(|place| place.join("moto_server"))
}

impl Store {
    pub(super) async fn start(program: &Path) -> Result<Self> {
        let address = SocketAddr::new(next_loopback(), PORT);
        let process = Command::new(program)
            .args(["-H", &address.ip().to_string(), "-p", &PORT.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let store = Self {
            address,
            _process: process,
        };
        until("moto to answer", async || Look::of(store.make_bucket())).await?;
        Ok(store)
    }

    fn make_bucket(&self) -> Result<()> {
        self.ask(&format!("PUT /{BUCKET}")).map(drop)
    }

    /// What is listed of the marks of commands that work there.
    #[cfg(feature = "planted")]
    pub(super) fn marks(&self) -> Result<String> {
        let prefix = "helve/prod/running/";
        let listed = self.ask(&format!("GET /{BUCKET}?list-type=2&prefix={prefix}"))?;
        let keys = listed.split("<Key>").skip(1);
        let keys = keys.filter_map(|rest| rest.split("</Key>").next());
        Ok(keys.collect::<Vec<_>>().join(" "))
    }

    /// moto checks no credentials.
    fn ask(&self, what: &str) -> Result<String> {
        let mut connection = TcpStream::connect(self.address)?;
        let request = format!(
            "{what} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        connection.write_all(request.as_bytes())?;
        let mut reply = String::new();
        connection.read_to_string(&mut reply)?;
        ensure!(reply.split(' ').nth(1) == Some("200"), "{reply}");
        Ok(reply)
    }

    pub(super) async fn helve(&self, arguments: &[&str]) -> Result<Output> {
        helve_at(&format!("http://{}", self.address), arguments).await
    }

    async fn back_up(&self, cluster: &Cluster) -> Result<Output> {
        let endpoint = cluster.listeners(1).client.to_string();
        self.helve(&["backup", TO, "--endpoints", &endpoint]).await
    }
}

/// The environment of a command that uses the store at this endpoint.
pub(super) fn environment(endpoint: &str) -> [(&'static str, &str); 4] {
    [
        ("AWS_ENDPOINT_URL", endpoint),
        ("AWS_ACCESS_KEY_ID", "id"),
        ("AWS_SECRET_ACCESS_KEY", SECRET),
        ("AWS_REGION", "us-east-1"),
    ]
}

/// Runs `helve` with a store in its environment.
pub(super) async fn helve_at(endpoint: &str, arguments: &[&str]) -> Result<Output> {
    let command = Command::new(binary())
        .args(arguments)
        .args(["--output", "json"])
        .envs(environment(endpoint))
        .kill_on_drop(true)
        .output();
    Ok(command.await?)
}

#[tokio::test(flavor = "multi_thread")]
async fn backup_in_a_bucket_is_restored_and_deleted() -> Result<()> {
    let Some(moto) = moto() else {
        return Ok(());
    };
    let store = Store::start(&moto).await?;
    let mut cluster = nodes(1).start().await?;
    let ledger = Ledger::new("carts");
    mint(&ledger, &cluster, MINTS).await?;
    let none = refusal(&store.helve(&["backup", "list", TO]).await?, 2)?;
    promise!(none.contains(TO) && none.contains("no backup"), "{none}");
    let first = report(&store.back_up(&cluster).await?)?;
    promise!(
        first["kept_bytes"] == 0 && first["directory"] == TO,
        "{first}"
    );
    mint(&ledger, &cluster, MINTS).await?;
    let second = report(&store.back_up(&cluster).await?)?;
    promise!(second["kept_bytes"].as_u64() > Some(0), "{second}");
    report(&store.helve(&["backup", "verify", TO]).await?)?;

    let id = first["id"].as_str().context("a backup has an id")?;
    let delete = ["backup", "delete", TO, id];
    let dry = report(&store.helve(&[&delete[..], &["--dry-run"]].concat()).await?)?;
    let deleted = report(&store.helve(&delete).await?)?;
    promise!(
        dry["dry_run"] == true && dry["deleted_files"] == deleted["deleted_files"],
        "{dry} {deleted}"
    );
    let again = refusal(&store.helve(&delete).await?, 2)?;
    promise!(again.contains(id), "{again}");
    let listed = report(&store.helve(&["backup", "list", TO]).await?)?;
    promise!(
        listed["backups"]
            .as_array()
            .is_some_and(|all| all.len() == 1),
        "{listed}"
    );

    lose_all(&mut cluster)?;
    let data = cluster.data_directory(1);
    let data = data.to_str().context("a path of a test is UTF-8")?;
    let restored = report(&store.helve(&["restore", TO, "--data-dir", data]).await?)?;
    promise!(restored["backup"] == second["id"], "{restored}");
    cluster.start(1)?;
    cluster.ready(1).await?;
    ledger.check(&cluster).await?;
    Ok(())
}

#[tokio::test]
async fn bucket_that_cannot_be_used_is_named_with_the_remedy() -> Result<()> {
    let data = tempfile::tempdir()?;
    let data = data.path().join("data");
    let data = data.to_str().context("a path of a test is UTF-8")?;
    for (endpoint, to, status, remedy) in [
        ("http://203.0.113.7:9000", TO, 2, "--allow-http"),
        ("http://127.0.0.1:9", TO, 4, "AWS_ENDPOINT_URL"),
        ("http://127.0.0.1:9", "s3://", 2, "s3://BUCKET/PREFIX"),
        (
            "http://127.0.0.1:9",
            "gopher://b/p",
            2,
            "s3://BUCKET/PREFIX",
        ),
    ] {
        for arguments in [
            &["backup", "list", to][..],
            &["backup", "verify", to],
            &["backup", "delete", to, "01234567-2"],
            &["restore", to, "--data-dir", data],
        ] {
            let said = refusal(&helve_at(endpoint, arguments).await?, status)?;
            let names = said.contains(to) && said.contains(remedy) && !said.contains(SECRET);
            promise!(names, "{arguments:?} at {endpoint}: {said}");
        }
    }
    Ok(())
}
