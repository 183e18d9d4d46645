//! The PostgreSQL tool, on Debian's postgresql.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use helve_client::{ErrorKind, StateTool as _, StoreOutcome, Ttl};
use helve_state::{PostgresTool, ToolOptions};
use serde_json::json;
use tempfile::TempDir;

use super::{
    Configured, assert_conforms,
    authority::Authority,
    server::{LOOK, Server, find, free_port},
};

/// The server, and the directory that it keeps everything in.
struct Postgres {
    server: Server,
    _directory: TempDir,
}

impl Postgres {
    async fn start() -> Option<Self> {
        Self::start_with(None).await
    }

    /// With a certificate of this authority for `localhost`, and for clients with TLS alone.
    async fn start_with(authority: Option<&Authority>) -> Option<Self> {
        let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
        let directories: Vec<PathBuf> = versions
            .flatten()
            .map(|entry| entry.path().join("bin"))
            .collect();
        let initdb = find("initdb", "postgresql", &directories)?;
        let postgres = initdb.with_file_name("postgres");
        let directory = TempDir::new().expect("there is room");
        let data = directory.path().join("data");
        give(directory.path());
        let mut make = as_unprivileged_user(&initdb);
        make.args([
            "--auth",
            "trust",
            "--username",
            "helve",
            "--encoding",
            "UTF8",
            "--no-sync",
            "--locale",
            "C.UTF-8",
        ]);
        let made = make
            .arg("--pgdata")
            .arg(&data)
            .output()
            .expect("initdb starts");
        assert!(
            made.status.success(),
            "{}",
            String::from_utf8_lossy(&made.stderr)
        );
        let port = free_port();
        let mut command = as_unprivileged_user(&postgres);
        command
            .arg("-D")
            .arg(&data)
            .args(["-h", "127.0.0.1", "-p", &port.to_string(), "-F"]);
        command
            .arg("-k")
            .arg(directory.path())
            .args(["-c", "max_connections=300"]);
        command.args(["-c", "dynamic_shared_memory_type=mmap"]);
        if let Some(authority) = authority {
            let (certificate, key) = authority.issue("localhost", directory.path());
            give(&certificate);
            give(&key);
            let rules =
                "hostssl all all 127.0.0.1/32 trust\nhostnossl all all 127.0.0.1/32 reject\n";
            fs::write(data.join("pg_hba.conf"), rules).expect("there is room");
            command.args(["-c", "ssl=on"]);
            command.args(["-c", &format!("ssl_cert_file={}", certificate.display())]);
            command.args(["-c", &format!("ssl_key_file={}", key.display())]);
        }
        command.stderr(fs::File::create(directory.path().join("log")).expect("there is room"));
        let server = Server::start(&mut command, port).await;
        let started = Self {
            server,
            _directory: directory,
        };
        if authority.is_none() {
            started.wait_until_it_takes_queries().await;
        }
        Some(started)
    }

    fn url(&self) -> String {
        format!("postgresql://helve@127.0.0.1:{}/postgres", self.server.port)
    }

    /// It listens before it has recovered.
    async fn wait_until_it_takes_queries(&self) {
        let until = std::time::Instant::now() + Duration::from_secs(60);
        let mut looks = tokio::time::interval(LOOK);
        while self.connect().await.is_none() {
            assert!(
                std::time::Instant::now() < until,
                "PostgreSQL takes no queries"
            );
            looks.tick().await;
        }
    }

    async fn connect(&self) -> Option<tokio_postgres::Client> {
        let connected = tokio_postgres::connect(&self.url(), tokio_postgres::NoTls).await;
        let (client, connection) = connected.ok()?;
        tokio::spawn(connection);
        Some(client)
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// PostgreSQL refuses to run as root.
fn as_unprivileged_user(program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command
        .args([
            "--reuid",
            "postgres",
            "--regid",
            "postgres",
            "--clear-groups",
        ])
        .arg(program);
    command
}

fn give(directory: &Path) {
    if is_root() {
        let given = Command::new("chown")
            .arg("postgres")
            .arg(directory)
            .status();
        assert!(given.expect("chown starts").success());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_passes() {
    let Some(postgres) = Postgres::start().await else {
        return;
    };
    let config = format!(
        "    url: \"{}\"\n    table: \"agent_states\"\n",
        postgres.url()
    );
    assert_conforms(Configured::new("postgres", config)).await;
    refuses_a_value_that_would_change(&postgres).await;
    takes_a_table_of_caxtons_columns_over(&postgres).await;
    removes_rows_that_have_expired(&postgres).await;
    is_unavailable_once_the_server_is_gone(postgres).await;
}

async fn refuses_a_value_that_would_change(postgres: &Postgres) {
    let tool = PostgresTool::new(&postgres.url(), "exact", ToolOptions::new());
    let tool = tool.expect("it is one");
    tool.store("k", &json!(1))
        .await
        .expect("it makes the table");
    let client = postgres.connect().await.expect("it takes queries");
    for json in ["18446744073709551616", r#"{"a":1,"a":2}"#] {
        let foreign = format!("UPDATE exact SET value = '{json}'");
        client.batch_execute(&foreign).await.expect("it is SQL");
        let refused = tool.retrieve("k").await.expect_err("it would change");
        assert_eq!(refused.kind(), ErrorKind::Codec, "{refused}");
    }
}

async fn takes_a_table_of_caxtons_columns_over(postgres: &Postgres) {
    let client = postgres.connect().await.expect("it takes queries");
    let make = "CREATE SCHEMA caxton;
        CREATE TABLE caxton.states (key text PRIMARY KEY, value jsonb, updated_at timestamptz DEFAULT now());
        INSERT INTO caxton.states (key, value) VALUES ('checkpoints/a/latest', '{\"n\": 1}'), ('Z', '1'), ('a', '2');";
    client.batch_execute(make).await.expect("it is SQL");
    let tool =
        PostgresTool::new(&postgres.url(), "caxton.states", ToolOptions::new()).expect("it is one");
    assert_eq!(
        tool.list("").await.expect("it answers"),
        ["Z", "a", "checkpoints/a/latest"]
    );
    let record = tool
        .retrieve_record("checkpoints/a/latest")
        .await
        .expect("it answers");
    let record = record.expect("it was there before");
    assert_eq!(record.value, json!({"n": 1}));
    assert!(record.revision() > 0);
    let replaced = tool
        .store_if(
            record.name(),
            &json!({"n": 2}),
            Ttl::Never,
            record.revision(),
        )
        .await;
    assert!(
        matches!(replaced, Ok(StoreOutcome::Replaced(_))),
        "{replaced:?}"
    );
    for kept in [
        json!(1.5),
        json!(10.0),
        // Integers of 64 bits, had they no fraction.
        json!([1e16, -1.5e17, 1e19, 10_000_000_000_000_000_u64]),
        json!(1e20),
        json!(1e300),
        json!(5e-324),
        json!(117.633_313_911_400_17),
    ] {
        tool.store("kept", &kept).await.expect("it is kept");
        assert_eq!(tool.retrieve("kept").await.expect("it answers"), Some(kept));
    }
    let batch = [("kept".to_owned(), json!([1e16]))];
    tool.batch_store(&batch).await.expect("it is kept");
    let kept = tool.retrieve("kept").await.expect("it answers");
    assert_eq!(kept, Some(json!([1e16])));
    let batch = [("kept".to_owned(), json!([-0.0]))];
    for refused in [
        tool.store("kept", &json!("\0")).await,
        tool.store("kept", &json!(-0.0)).await,
        tool.batch_store(&batch).await,
    ] {
        let refused = refused.expect_err("jsonb has no such value");
        assert_eq!(refused.kind(), ErrorKind::Codec, "{refused}");
    }
}

async fn removes_rows_that_have_expired(postgres: &Postgres) {
    let tool =
        PostgresTool::new(&postgres.url(), "expiring", ToolOptions::new()).expect("it is one");
    for number in 0..3 {
        let short = Ttl::After(Duration::from_millis(1));
        tool.store_record(&format!("k{number}"), &json!(1), short)
            .await
            .expect("it takes it");
    }
    let client = postgres.connect().await.expect("it takes queries");
    let until = std::time::Instant::now() + Duration::from_secs(30);
    loop {
        tool.store("stays", &json!(1)).await.expect("it takes it");
        let counted = client.query_one("SELECT count(*) FROM expiring", &[]).await;
        let rows: i64 = counted.expect("it answers").get(0);
        if rows == 1 {
            return;
        }
        assert!(std::time::Instant::now() < until, "{rows} rows stay");
    }
}

async fn is_unavailable_once_the_server_is_gone(mut postgres: Postgres) {
    let options = ToolOptions::new().deadline(Duration::from_secs(2));
    let tool = PostgresTool::new(&postgres.url(), "gone", options).expect("it is one");
    tool.store("k", &json!(1)).await.expect("it takes it");
    postgres.server.stop();
    let read = tool.retrieve("k").await.expect_err("no server answers");
    assert_eq!(read.kind(), ErrorKind::Unavailable, "{read}");
    let written = tool
        .store("k", &json!(2))
        .await
        .expect_err("no server answers");
    let is_honest = matches!(
        written.kind(),
        ErrorKind::Unavailable | ErrorKind::Ambiguous
    );
    assert!(is_honest, "{written:?}");
}

#[test]
fn a_table_that_is_no_name_and_a_url_that_is_none_are_refused() {
    let url = "postgresql://user:pass@localhost/caxton";
    for table in [
        "",
        "a b",
        "states; DROP TABLE states",
        "a.b.c",
        "States",
        "\"a\"",
        ".",
        &"t".repeat(51),
    ] {
        let refused = PostgresTool::new(url, table, ToolOptions::new()).expect_err(table);
        assert_eq!(refused.kind(), ErrorKind::Invalid, "{table}");
    }
    for url in [
        "localhost",
        "redis://localhost",
        "postgresql://localhost/a?sslmode=verify",
    ] {
        let refused = PostgresTool::new(url, "agent_states", ToolOptions::new()).expect_err(url);
        assert_eq!(refused.kind(), ErrorKind::Invalid, "{url}");
    }
    let authority = Authority::new();
    let tls = "postgresql://localhost/a?sslmode=verify-full";
    for (url, ca) in [
        ("postgresql://localhost/a", authority.pem().as_bytes()),
        (
            "postgresql://localhost/a?sslmode=prefer",
            authority.pem().as_bytes(),
        ),
        (tls, b""),
        (tls, b"no certificate"),
    ] {
        let refused = PostgresTool::with_ca(url, "agent_states", ca, ToolOptions::new());
        assert_eq!(refused.expect_err(url).kind(), ErrorKind::Invalid, "{url}");
    }
}

#[tokio::test]
async fn postgres_over_tls_is_reached_if_its_certificate_is_trusted() {
    let (authority, other) = (Authority::new(), Authority::new());
    let Some(postgres) = Postgres::start_with(Some(&authority)).await else {
        return;
    };
    let port = postgres.server.port;
    let url = |host: &str, mode: &str| {
        format!("postgresql://helve@{host}:{port}/postgres?sslmode={mode}")
    };
    let options = ToolOptions::new().deadline(Duration::from_secs(30));
    let tool = |url: &str, ca: &Authority| {
        let ca = ca.pem();
        PostgresTool::with_ca(url, "states", ca.as_bytes(), options).expect("it is one")
    };
    for mode in ["require", "verify-ca", "verify-full"] {
        let trusted = tool(&url("localhost", mode), &authority);
        let until = std::time::Instant::now() + Duration::from_secs(60);
        // It listens before it has recovered.
        while let Err(error) = trusted.store("k", &json!(mode)).await {
            assert!(std::time::Instant::now() < until, "{mode}: {error}");
        }
        assert_eq!(
            trusted.retrieve("k").await.expect("it answers"),
            Some(json!(mode))
        );
        let machines_own = PostgresTool::new(&url("localhost", mode), "states", options);
        for (why, untrusted) in [
            ("another authority", tool(&url("localhost", mode), &other)),
            ("another name", tool(&url("127.0.0.1", mode), &authority)),
            (
                "this machine's authorities",
                machines_own.expect("it is one"),
            ),
        ] {
            let refused = untrusted.retrieve("k").await.expect_err(why);
            assert_eq!(
                refused.kind(),
                ErrorKind::Unavailable,
                "{mode}, {why}: {refused:?}"
            );
        }
    }
    let plain = PostgresTool::new(&postgres.url(), "states", options).expect("it is one");
    let refused = plain.retrieve("k").await.expect_err("it wants TLS");
    assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused:?}");
}
