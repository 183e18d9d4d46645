//! A PostgreSQL primary with one synchronous standby.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use helve_tests::address::next_loopback;
use tokio_postgres::{Client, NoTls, Statement};
use tonic::async_trait;

use crate::{
    daemon::{Daemon, Home, find, patiently},
    id::new_id,
    product::{Found, Running, Session},
};

/// Where Debian keeps what is not on the path.
const BINARIES: [&str; 3] = [
    "/usr/lib/postgresql/15/bin",
    "/usr/lib/postgresql/16/bin",
    "/usr/lib/postgresql/17/bin",
];
const PORT: u16 = 5432;
/// PostgreSQL does not run as root.
const USER: &str = "postgres";

const SCHEMA: &str = r#"CREATE TABLE records (
    id text COLLATE "C" PRIMARY KEY,
    value text NOT NULL,
    revision bigint NOT NULL DEFAULT 1,
    expires_at timestamptz
)"#;

pub(crate) struct Postgres {
    nodes: Vec<Daemon>,
    connect: String,
    _home: Home,
}

impl Postgres {
    /// `None` if this machine does not have it.
    pub(crate) async fn start() -> Result<Option<Self>> {
        let found = ["initdb", "postgres", "pg_basebackup"].map(|name| find(name, &BINARIES));
        let [Some(initdb), Some(postgres), Some(basebackup)] = found else {
            return Ok(None);
        };
        let home = Home::new("postgres")?;
        let user = User::of(home.path())?;
        let address = next_loopback().to_string();
        let (primary, standby) = (home.path().join("primary"), home.path().join("standby"));
        let name = |path: &Path| path.to_str().map(str::to_owned).context("it has a name");
        user.run(
            &initdb,
            &[
                "--auth=trust",
                "--no-sync",
                "--username",
                USER,
                "-D",
                &name(&primary)?,
            ],
        )?;
        let conf = format!(
            "listen_addresses = '{address}'\nunix_socket_directories = ''\nmax_connections = 400\nshared_buffers = '512MB'\n\
             wal_level = replica\nsynchronous_commit = on\nsynchronous_standby_names = '*'\nmax_wal_size = '4GB'\n"
        );
        append(&primary.join("postgresql.conf"), &conf)?;
        let hba = "host all all 127.0.0.0/8 trust\nhost replication all 127.0.0.0/8 trust\n";
        append(&primary.join("pg_hba.conf"), hba)?;
        let mut nodes = vec![user.start(&postgres, &name(&primary)?, PORT, &home)?];
        let connect = format!("host={address} port={PORT} user={USER} dbname=postgres");
        // Not replicated yet, or the first commit would wait for a standby that is made of it.
        patiently("postgres", async || {
            let client = client(&connect).await?;
            client
                .batch_execute("SET synchronous_commit = local")
                .await?;
            Ok(client.batch_execute(SCHEMA).await?)
        })
        .await?;
        let source = [
            "-h",
            &address,
            "-p",
            "5432",
            "-U",
            USER,
            "-D",
            &name(&standby)?,
        ];
        user.run(
            &basebackup,
            &[&source[..], &["-R", "-X", "stream", "-c", "fast"]].concat(),
        )?;
        nodes.push(user.start(&postgres, &name(&standby)?, PORT + 1, &home)?);
        patiently("the standby", async || {
            let client = client(&connect).await?;
            let query = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
            let standbys: i64 = client.query_one(query, &[]).await?.get(0);
            ensure!(standbys == 1, "it is not synchronous yet");
            Ok(())
        })
        .await?;
        Ok(Some(Self {
            nodes,
            connect,
            _home: home,
        }))
    }
}

fn append(path: &Path, text: &str) -> Result<()> {
    let before = fs::read_to_string(path)?;
    Ok(fs::write(path, before + text)?)
}

/// Who runs the processes: the benchmark's user, or the package's own user instead of root.
enum User {
    Own,
    Other(PathBuf),
}

impl User {
    fn of(home: &Path) -> Result<Self> {
        if !rustix::process::geteuid().is_root() {
            return Ok(Self::Own);
        }
        let setpriv = find("setpriv", &[])
            .context("PostgreSQL does not run as root: apt-get install util-linux")?;
        let chown = Command::new("chown").arg(USER).arg(home).status()?;
        ensure!(chown.success(), "there is no user {USER}");
        Ok(Self::Other(setpriv))
    }

    fn arguments<'a>(
        &'a self,
        binary: &'a Path,
        arguments: &[&'a str],
    ) -> Result<(&'a Path, Vec<&'a str>)> {
        Ok(match self {
            Self::Own => (binary, arguments.to_vec()),
            Self::Other(setpriv) => {
                let binary = binary.to_str().context("it has a name")?;
                let become_user = ["--reuid", USER, "--regid", USER, "--clear-groups", binary];
                (setpriv.as_path(), [&become_user[..], arguments].concat())
            }
        })
    }

    fn run(&self, binary: &Path, arguments: &[&str]) -> Result<()> {
        let (program, arguments) = self.arguments(binary, arguments)?;
        let output = Command::new(program).args(arguments).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{}: {said}", binary.display());
        Ok(())
    }

    fn start(&self, binary: &Path, data: &str, port: u16, home: &Home) -> Result<Daemon> {
        let port_text = port.to_string();
        let (program, arguments) = self.arguments(binary, &["-D", data, "-p", &port_text])?;
        Daemon::start(program, arguments, home, port)
    }
}

async fn client(connect: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(connect, NoTls).await?;
    // It ends with its client, who hears of every error.
    tokio::spawn(connection);
    Ok(client)
}

#[async_trait(?Send)]
impl Running for Postgres {
    async fn session(&self, _caller: usize) -> Result<Box<dyn Session>> {
        let client = client(&self.connect).await?;
        let statements = Statements::prepare(&client).await?;
        Ok(Box::new(PostgresSession { client, statements }))
    }

    fn pids(&self) -> Vec<u32> {
        self.nodes.iter().map(Daemon::pid).collect()
    }

    async fn syncs(&self) -> Result<Option<u64>> {
        let client = client(&self.connect).await?;
        let row = client
            .query_one("SELECT wal_sync FROM pg_stat_wal", &[])
            .await?;
        // Of the primary alone: a standby does not show its own.
        Ok(Some(u64::try_from(row.get::<_, i64>(0))?))
    }
}

struct Statements {
    insert: Statement,
    insert_with_ttl: Statement,
    get: Statement,
    put: Statement,
    put_if: Statement,
    take: Statement,
    store_batch: Statement,
    retrieve_batch: Statement,
    list: Statement,
}

impl Statements {
    async fn prepare(client: &Client) -> Result<Self> {
        let live = "(expires_at IS NULL OR expires_at > now())";
        let set = "UPDATE records SET value = $2, revision = revision + 1 WHERE id = $1";
        Ok(Self {
            insert: client
                .prepare("INSERT INTO records (id, value) VALUES ($1, $2)")
                .await?,
            insert_with_ttl: client
                .prepare("INSERT INTO records (id, value, expires_at) VALUES ($1, $2, now() + $3 * interval '1 ms')")
                .await?,
            get: client
                .prepare(&format!("SELECT value, revision FROM records WHERE id = $1 AND {live}"))
                .await?,
            put: client.prepare(&format!("{set} AND {live}")).await?,
            put_if: client
                .prepare(&format!("{set} AND revision = $3 AND {live}"))
                .await?,
            take: client
                .prepare(&format!("DELETE FROM records WHERE id = $1 AND {live} RETURNING value"))
                .await?,
            store_batch: client
                .prepare(
                    "INSERT INTO records (id, value) SELECT * FROM unnest($1::text[], $2::text[]) \
                     ON CONFLICT (id) DO UPDATE SET value = excluded.value, revision = records.revision + 1",
                )
                .await?,
            retrieve_batch: client
                .prepare(&format!("SELECT id, value FROM records WHERE id = ANY($1) AND {live}"))
                .await?,
            list: client
                .prepare(&format!("SELECT id FROM records WHERE id >= $1 AND id < $2 AND {live} ORDER BY id"))
                .await?,
        })
    }
}

struct PostgresSession {
    client: Client,
    statements: Statements,
}

#[async_trait(?Send)]
impl Session for PostgresSession {
    async fn mint(&mut self, value: &str) -> Result<String> {
        let id = new_id();
        let insert = &self.statements.insert;
        self.client.execute(insert, &[&id, &value]).await?;
        Ok(id)
    }

    async fn create(&mut self, value: &str) -> Result<String> {
        // The primary key sees to it.
        self.mint(value).await
    }

    async fn mint_with_ttl(&mut self, value: &str, ttl: Duration) -> Result<String> {
        let id = new_id();
        let insert = &self.statements.insert_with_ttl;
        let ttl_ms = ttl.as_secs_f64() * 1e3;
        self.client.execute(insert, &[&id, &value, &ttl_ms]).await?;
        Ok(id)
    }

    async fn get(&mut self, id: &str) -> Result<Found> {
        let found = self.client.query_opt(&self.statements.get, &[&id]).await?;
        let found = found.with_context(|| format!("{id} is lost"))?;
        Ok(Found {
            value: found.get(0),
            revision: u64::try_from(found.get::<_, i64>(1))?,
        })
    }

    async fn put(&mut self, id: &str, value: &str) -> Result<()> {
        let put = &self.statements.put;
        let rows = self.client.execute(put, &[&id, &value]).await?;
        ensure!(rows == 1, "{id} is lost");
        Ok(())
    }

    async fn put_if(&mut self, id: &str, found: &Found, value: &str) -> Result<bool> {
        let revision = i64::try_from(found.revision)?;
        let put = &self.statements.put_if;
        let rows = self.client.execute(put, &[&id, &value, &revision]).await?;
        Ok(rows == 1)
    }

    async fn take(&mut self, id: &str) -> Result<()> {
        let taken = self.client.query_opt(&self.statements.take, &[&id]).await?;
        ensure!(taken.is_some(), "{id} is lost");
        Ok(())
    }

    async fn store_batch(&mut self, items: &[(String, String)]) -> Result<()> {
        let (keys, values): (Vec<&String>, Vec<&String>) =
            items.iter().map(|(key, value)| (key, value)).unzip();
        let store = &self.statements.store_batch;
        self.client.execute(store, &[&keys, &values]).await?;
        Ok(())
    }

    async fn retrieve_batch(&mut self, keys: &[String]) -> Result<()> {
        let retrieve = &self.statements.retrieve_batch;
        let rows = self.client.query(retrieve, &[&keys]).await?;
        ensure!(rows.len() == keys.len(), "a key is lost");
        Ok(())
    }

    async fn list(&mut self, prefix: &str) -> Result<usize> {
        // "0" follows "/" in the order of bytes.
        let end = format!("{}0", prefix.trim_end_matches('/'));
        let list = &self.statements.list;
        let rows = self.client.query(list, &[&prefix, &end]).await?;
        Ok(rows.len())
    }
}
