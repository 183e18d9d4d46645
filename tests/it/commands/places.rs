//! Everything that an operator may point a command at by mistake.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::fs::PermissionsExt as _,
    process::{Child, Stdio},
    thread,
};

use anyhow::{Context as _, Result};
use helve_tests::{
    address::Listeners,
    cluster::{Cluster, Equipment},
    process::Start,
    token::Token,
};
use serde_json::Value;
use tempfile::TempDir;

use super::super::{binary, nodes};

/// A place, what a command says of it, and the flags to go there with.
pub(super) struct Row {
    /// The word for programs.
    pub(super) cause: &'static str,
    pub(super) endpoint: String,
    pub(super) flags: Vec<String>,
    /// The exit statuses that go with it.
    pub(super) statuses: &'static [i32],
}

/// The command must change.
const COMMAND: &[i32] = &[2];
/// Nothing listens; the outcome of a call that was sent is not known.
const SILENCE: &[i32] = &[3, 5];

/// What runs while commands are tried.
pub(super) struct Places {
    plain: Cluster,
    secured: Cluster,
    guarded: Cluster,
    mcp: Mcp,
    directory: TempDir,
}

impl Places {
    pub(super) async fn start() -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let (operator, other) = (Token::new()?, Token::new()?);
        let file = directory.path().join("operator.token");
        operator.write(&file)?;
        other.write(&directory.path().join("other.token"))?;
        fs::write(directory.path().join("empty.crt"), "")?;
        for (name, text, mode) in [
            ("empty.token", "\n", 0o600),
            ("open.token", "hlv_x\n", 0o644),
        ] {
            let file = directory.path().join(name);
            fs::write(&file, text)?;
            fs::set_permissions(&file, fs::Permissions::from_mode(mode))?;
        }
        let guarded = nodes(1)
            .beside_others()
            .bearing(operator.bearer.clone())
            .with("HELVE_AUTH", "tokens")
            .with("HELVE_OPERATOR_TOKEN_FILE", &file.display().to_string());
        let other_ca = helve_tests::certificates::Certificates::make(directory.path().join("ca"))?;
        drop(other_ca);
        Ok(Self {
            plain: nodes(1).start().await?,
            secured: nodes(1)
                .beside_others()
                .on(Equipment::Certificates)
                .start()
                .await?,
            guarded: guarded.start().await?,
            mcp: Mcp::start()?,
            directory,
        })
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    /// Files that hold no token, and no CA.
    fn files(&self, client: SocketAddr) -> Vec<Row> {
        let of = |cause, flag, name: &&str| row(cause, client, &[flag, &self.path(name)]);
        let tokens = ["none.token", "empty.token", "open.token", "ca"];
        let tokens = tokens
            .iter()
            .map(|name| of("token_file", "--token-file", name));
        let cas = ["none.crt", "ca", "empty.crt"];
        let cas = cas.iter().map(|name| of("tls_file", "--tls-ca", name));
        tokens.chain(cas).collect()
    }

    /// Every place but those without a listener.
    pub(super) fn rows(&self) -> Result<Vec<Row>> {
        let plain = self.plain.listeners(1);
        let secured = self.secured.listeners(1);
        let guarded = self.guarded.listeners(1).client.to_string();
        let ca = self
            .secured
            .certificates()?
            .path("ca.crt")
            .display()
            .to_string();
        let other_ca = self.path("ca/ca.crt");
        let mut rows = vec![
            row("token_missing", &guarded, &[]),
            row(
                "token_refused",
                &guarded,
                &["--token-file", &self.path("other.token")],
            ),
            row("bad_endpoint", "127.0.0.1", &[]),
            row("http_port", plain.http, &[]),
            row("peer_port", plain.peer, &[]),
            row("mcp_port", &self.mcp.address, &[]),
            row("tls_expected", secured.client, &[]),
            row("tls_not_expected", plain.client, &["--tls-ca", &ca]),
            row(
                "certificate_unknown_ca",
                secured.client,
                &["--tls-ca", &other_ca],
            ),
            row(
                "certificate_name",
                secured.client,
                &["--tls-ca", &ca, "--tls-server-name", "elsewhere.example"],
            ),
            row(
                "client_certificate_missing",
                secured.peer,
                &["--tls-ca", &ca],
            ),
        ];
        rows.extend(self.files(plain.client));
        rows.push(row(
            "not_helve",
            port_that_says(b"SSH-2.0-OpenSSH_9.2\r\n")?,
            &[],
        ));
        for (cause, status, statuses) in [
            ("proxy_fails", *b"503", &[3][..]),
            ("proxy_limits", *b"429", &[6]),
            ("proxy_refuses", *b"401", COMMAND),
        ] {
            rows.push(Row {
                statuses,
                ..row(cause, port_that_refuses(status)?, &[])
            });
        }
        rows.extend([
            Row {
                statuses: SILENCE,
                ..row("closed", port_that_closes()?, &[])
            },
            Row {
                statuses: SILENCE,
                ..row("silent", port_that_says(b"")?, &[])
            },
            Row {
                statuses: SILENCE,
                ..row("nothing_listens", free_address()?, &[])
            },
        ]);
        Ok(rows)
    }
}

/// A place that asks for another command.
#[expect(clippy::needless_pass_by_value, reason = "a row reads better without")]
fn row(cause: &'static str, endpoint: impl ToString, flags: &[&str]) -> Row {
    Row {
        cause,
        endpoint: endpoint.to_string(),
        flags: flags.iter().map(ToString::to_string).collect(),
        statuses: COMMAND,
    }
}

/// An address where nothing listens.
fn free_address() -> Result<String> {
    Ok(Listeners::of_seat(helve_tests::address::next_loopback(), 1)
        .client
        .to_string())
}

/// A port that closes each connection at once, as one that forwards to a node that is down.
fn port_that_closes() -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    thread::spawn(move || listener.incoming().for_each(drop));
    Ok(address)
}

/// A proxy that answers each call over HTTP/2 with this status alone.
fn port_that_refuses(status: [u8; 3]) -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A caller that goes away ends the connection with an error.
            thread::spawn(move || refuse_all(stream, status));
        }
    });
    Ok(address)
}

/// Frames of HTTP/2 (RFC 9113, section 4.1): a head of nine bytes with length, kind, flags and stream.
fn refuse_all(mut stream: TcpStream, status: [u8; 3]) -> std::io::Result<()> {
    const SETTINGS: u8 = 4;
    const HEADERS: u8 = 1;
    let mut preface = [0; 24];
    stream.read_exact(&mut preface)?;
    stream.write_all(&[0, 0, 0, SETTINGS, 0, 0, 0, 0, 0])?;
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head)?;
        let [a, b, c, kind, flags, id @ ..] = head;
        let mut content = vec![0; usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c)];
        stream.read_exact(&mut content)?;
        if kind == SETTINGS && flags & 1 == 0 {
            stream.write_all(&[0, 0, 0, SETTINGS, 1, 0, 0, 0, 0])?;
        }
        if kind == HEADERS {
            // `:status` by its place in the table of HPACK (RFC 7541, appendix A), and its value.
            let block = [&[0x08, 3][..], &status[..]].concat();
            stream.write_all(&[&[0, 0, 5, HEADERS, 5][..], &id[..], &block[..]].concat())?;
        }
    }
}

/// A port that says this to every caller, and then holds the connection.
fn port_that_says(words: &'static [u8]) -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let said = stream.write_all(words);
                let mut heard = [0; 1024];
                while said.is_ok() && matches!(stream.read(&mut heard), Ok(1..)) {}
            });
        }
    });
    Ok(address)
}

/// An MCP server.
struct Mcp {
    process: Child,
    address: String,
}

impl Mcp {
    fn start() -> Result<Self> {
        let start = Start {
            binary: binary(),
            arguments: [
                "mcp",
                "--memory",
                "--listen",
                "127.0.0.1:0",
                "--output",
                "json",
            ]
            .map(Into::into)
            .into(),
            environment: Vec::new(),
        };
        let mut process = start
            .command()
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let out = process.stdout.take().context("it was piped")?;
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line)?;
        let serving: Value = serde_json::from_str(&line).with_context(|| line.clone())?;
        let url = serving["mcp"].as_str().context("no URL")?;
        let address = url.trim_start_matches("http://").trim_end_matches("/mcp");
        Ok(Self {
            address: address.to_owned(),
            process,
        })
    }
}

impl Drop for Mcp {
    fn drop(&mut self) {
        let _killed = self.process.kill();
        let _status = self.process.wait();
    }
}
