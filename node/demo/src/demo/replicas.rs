//! The cart servers of the demo, and the balancer in front of them.

use std::{net::SocketAddr, path::Path, time::Duration};

use anyhow::{Context as _, bail};
use helve_mcp::{
    balancer,
    serve::{EndOnDrop, MCP_PATH, Shutdown},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
    time::Instant,
};

use super::processes::{Process, Spec};

/// How long a replica may take to serve.
const READY_TIMEOUT: Duration = Duration::from_secs(10);
/// The pause between two looks at a condition.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// A replica's process and address.
#[derive(Debug)]
pub(super) struct Replica {
    pub(super) address: SocketAddr,
    pub(super) process: Process,
}

/// All replicas, behind one address.
#[derive(Debug)]
pub(super) struct Replicas {
    pub(super) replicas: Vec<Replica>,
    /// Where MCP clients connect.
    pub(super) uri: String,
    _balancer: JoinHandle<std::io::Result<()>>,
    _shutdown: EndOnDrop,
}

impl Replicas {
    /// Starts a cart server at each address, and the balancer. `cluster` are the flags by which they reach the nodes.
    pub(super) async fn start(
        dir: &Path,
        cluster: &[String],
        addresses: &[SocketAddr],
    ) -> anyhow::Result<Self> {
        let start = |(address, number): (&SocketAddr, u32)| {
            let own = ["cart", "--listen", &address.to_string()].map(str::to_owned);
            let spec = Spec {
                name: format!("cart-{number}"),
                arguments: [&own[..], cluster].concat(),
            };
            Ok(Replica {
                address: *address,
                process: Process::start(spec, dir)?,
            })
        };
        let replicas = addresses
            .iter()
            .zip(1..)
            .map(start)
            .collect::<anyhow::Result<_>>()?;
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .context("no loopback port")?;
        let uri = format!("http://{}{MCP_PATH}", listener.local_addr()?);
        let shutdown = Shutdown::new();
        let balancer = tokio::spawn(balancer::serve(
            listener,
            addresses.iter().map(ToString::to_string).collect(),
            shutdown.clone(),
        ));
        Ok(Self {
            replicas,
            uri,
            _balancer: balancer,
            _shutdown: shutdown.end_on_drop(),
        })
    }

    /// Waits until all replicas serve.
    pub(super) async fn ready(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + READY_TIMEOUT;
        for Replica { address, process } in &mut self.replicas {
            while !lives(*address).await {
                process.check()?;
                if Instant::now() > deadline {
                    bail!("{} does not serve after {READY_TIMEOUT:?}", process.name());
                }
                tokio::time::sleep(LOOK_PAUSE).await;
            }
        }
        Ok(())
    }
}

/// Whether a replica answers `/livez`.
async fn lives(address: SocketAddr) -> bool {
    let ask = async {
        let mut stream = TcpStream::connect(address).await?;
        stream
            .write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            .await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        std::io::Result::Ok(answer.starts_with("HTTP/1.1 200"))
    };
    tokio::time::timeout(Duration::from_secs(1), ask)
        .await
        .is_ok_and(|answer| answer.unwrap_or(false))
}
