//! Callers that begin and never end: they hold connections open, and send what a request begins with a byte at a time.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result};
use helve_proto::v1::MintRequest;
use rand::rngs::SmallRng;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinSet,
    time::{sleep, timeout},
};
use tonic::async_trait;

use super::{Fault, Seen, nudge::STORE, scarce::open_files};
use crate::{
    address::Listeners,
    caller::{Caller, DEADLINE, new_identity},
    cluster::Cluster,
    promise::Broken,
    wait::{Look, until},
};

/// Connections to each port of each node, for each way of being slow.
const CONNECTIONS: usize = 16;
/// Between two bytes of one connection.
const PACE: Duration = Duration::from_millis(250);
/// Bytes that each connection must have sent, on the average, for the strike to have been one.
const BYTES_EACH_MIN: usize = 4;

/// How one caller is slow.
#[derive(Debug, Clone)]
struct Slowness {
    /// Sent at once.
    opening: Vec<u8>,
    /// Sent a byte at a time...
    drip: Vec<u8>,
    /// ...and then this, for ever.
    filler: u8,
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The largest frame that HTTP/2 allows unasked, of which the other side waits for the rest. (Settings have six bytes each.)
const FRAME_BYTES: u32 = 16_380;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const END_HEADERS: u8 = 4;

impl Slowness {
    /// The head of an HTTP request, of which no line is the last.
    fn head() -> Self {
        Self {
            opening: Vec::new(),
            drip: b"GET /readyz HTTP/1.1\r\nHost: slow\r\nX-Slow: ".to_vec(),
            filler: b'a',
        }
    }

    /// What an HTTP/2 connection begins with.
    fn preface() -> Self {
        let settings = frame(FRAME_BYTES, SETTINGS, 0, 0);
        Self {
            opening: Vec::new(),
            drip: [PREFACE, &settings].concat(),
            filler: 0,
        }
    }

    /// A gRPC call whose message does not come to its end.
    fn message() -> Self {
        let mut headers = vec![0x83, 0x86];
        for (name, value) in [
            (&[0x04][..], "/helve.v1.HandleService/Mint"),
            (&[0x01], "slow"),
            (&[0x0f, 0x10], "application/grpc"),
            (b"\0\x02te", "trailers"),
        ] {
            headers.extend(name);
            headers.push(u8::try_from(value.len()).expect("these are short"));
            headers.extend(value.as_bytes());
        }
        let length = u32::try_from(headers.len()).expect("these are few");
        let opening = [
            PREFACE,
            &frame(0, SETTINGS, 0, 0),
            &frame(length, HEADERS, END_HEADERS, 1),
            &headers,
            &frame(FRAME_BYTES, DATA, 0, 1),
        ];
        let prefix = (FRAME_BYTES - 5).to_be_bytes();
        Self {
            opening: opening.concat(),
            drip: [&[0][..], &prefix].concat(),
            filler: 0,
        }
    }
}

/// The head of an HTTP/2 frame.
fn frame(length: u32, kind: u8, flags: u8, stream: u8) -> Vec<u8> {
    let [_, high, middle, low] = length.to_be_bytes();
    vec![high, middle, low, kind, flags, 0, 0, 0, stream]
}

/// What the slow callers came to so far.
#[derive(Debug, Default)]
struct Tally {
    bytes: AtomicUsize,
    /// Connections that the node has closed; the caller makes another.
    closed: AtomicUsize,
}

/// Many slow callers on the client and HTTP ports of all nodes, until it is healed. Others must be served meanwhile.
#[derive(Debug, Default)]
pub struct SlowLoris {
    callers: JoinSet<()>,
}

#[async_trait(?Send)]
impl Fault for SlowLoris {
    fn name(&self) -> &'static str {
        "slow-loris"
    }

    async fn strike(&mut self, cluster: &mut Cluster, _: &mut SmallRng) -> Result<Seen> {
        let tally = Arc::<Tally>::default();
        let mut before = Vec::new();
        for seat in cluster.running() {
            let pid = cluster.node(seat).pid().context("the node runs")?;
            before.push((seat, pid, open_files(pid)?));
            let Listeners { client, http, .. } = cluster.listeners(seat);
            let slow = [
                (client, Slowness::preface()),
                (client, Slowness::message()),
                (http, Slowness::head()),
            ];
            for (address, slowness) in slow {
                for _ in 0..CONNECTIONS {
                    let caller = call(address, slowness.clone(), Arc::clone(&tally));
                    self.callers.spawn(caller);
                }
            }
        }
        let enough = BYTES_EACH_MIN * self.callers.len();
        until("slow callers to be slow", async || {
            match tally.bytes.load(Ordering::Relaxed) {
                bytes if bytes >= enough => Look::Done(()),
                bytes => Look::NotYet(format!("{bytes} bytes of {enough}")),
            }
        })
        .await?;
        let mut seen = Seen::default();
        for (seat, pid, files) in before {
            let held = holds(pid, files + CONNECTIONS as u64).await?;
            is_served(cluster.listeners(seat), seat).await?;
            seen.add(format!(
                "node {seat} holds {held} files, {files} before, and serves"
            ));
        }
        let closed = tally.closed.load(Ordering::Relaxed);
        seen.add(format!("{closed} connections were closed by the nodes"));
        Ok(seen)
    }

    async fn heal(&mut self, cluster: &mut Cluster) -> Result<()> {
        self.callers.shutdown().await;
        cluster.all_ready().await
    }
}

/// Begins one call after the other, and ends none.
async fn call(address: SocketAddr, slowness: Slowness, tally: Arc<Tally>) {
    let Slowness {
        opening,
        drip,
        filler,
    } = slowness;
    loop {
        if let Ok(mut stream) = TcpStream::connect(address).await
            && stream.write_all(&opening).await.is_ok()
        {
            let mut bytes = drip.iter().copied().chain(std::iter::repeat(filler));
            while let Some(byte) = bytes.next()
                && stream.write_all(&[byte]).await.is_ok()
            {
                tally.bytes.fetch_add(1, Ordering::Relaxed);
                sleep(PACE).await;
            }
            tally.closed.fetch_add(1, Ordering::Relaxed);
        }
        sleep(PACE).await;
    }
}

/// Waits until a process holds this many files, connections among them, and returns how many.
async fn holds(pid: u32, files: u64) -> Result<u64> {
    until(
        "the node to hold slow connections",
        async || match open_files(pid) {
            Ok(open) if open >= files => Look::Done(open),
            Ok(open) => Look::NotYet(format!("{open} of {files} files")),
            Err(error) => Look::NotYet(error.to_string()),
        },
    )
    .await
}

/// A new caller is answered, on both ports.
async fn is_served(at: Listeners, seat: u64) -> Result<()> {
    let caller = Caller::new(at.client);
    let minted = until("a call beside slow ones to be answered", async || {
        let request = MintRequest {
            identity: Some(new_identity()),
            store: STORE.to_owned(),
            ..MintRequest::default()
        };
        Look::of(caller.mint(request).await)
    });
    let minted = minted.await.map(drop);
    let probed = until("a probe beside slow callers to be answered", async || {
        Look::of(probe(at.http).await)
    });
    let served = minted.and(probed.await);
    served.map_err(|error| {
        Broken::new(format!(
            "slow callers keep node {seat} from serving others: {error:#}"
        ))
        .into()
    })
}

async fn probe(http: SocketAddr) -> Result<()> {
    let asked = async {
        let mut stream = TcpStream::connect(http).await?;
        stream
            .write_all(b"GET /readyz HTTP/1.1\r\nHost: quick\r\nConnection: close\r\n\r\n")
            .await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        anyhow::ensure!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        Ok(())
    };
    timeout(DEADLINE, asked).await?
}
