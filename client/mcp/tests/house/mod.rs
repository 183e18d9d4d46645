//! Replicas of the cart server on one store in memory, behind the balancer, whose answers can be lost.

pub(crate) mod words;

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::{
    body::{Body, Bytes},
    extract::{Request, State},
    middleware::{Next, from_fn_with_state},
    response::Response,
};
use helve_client::{
    Client, KeyOptions, MemoryBuilder, StateTool,
    v1::{Lifetime, PutRequest, Unit, lifetime::Absolute},
};
use helve_mcp::{
    balancer,
    cart::{CartServer, ORDERS, Settings},
    flow::{Caller, Held},
    serve::{Access, EndOnDrop, Shutdown, router, serve},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// The carts' lifetime.
pub(crate) const IDLE_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// Whether the request whose answer is lost was carried out.
#[derive(Clone, Copy)]
pub(crate) enum Execution {
    Done,
    Undone,
}

struct Wire {
    served: AtomicU64,
    lose: Arc<Mutex<Option<Execution>>>,
}

pub(crate) struct House {
    pub(crate) replicas: Vec<SocketAddr>,
    uri: String,
    client: Client,
    wires: Vec<Arc<Wire>>,
    lose: Arc<Mutex<Option<Execution>>>,
    retries: Arc<AtomicU64>,
    _shutdown: EndOnDrop,
}

impl House {
    pub(crate) async fn open(replica_count: usize) -> Self {
        let client = MemoryBuilder::new().build().unwrap();
        let shutdown = Shutdown::new();
        let lose = Arc::new(Mutex::new(None));
        let (mut replicas, mut wires) = (Vec::new(), Vec::new());
        for _ in 0..replica_count {
            let server = CartServer::new(client.clone(), Settings::shared());
            let wire = Arc::new(Wire {
                served: AtomicU64::new(0),
                lose: Arc::clone(&lose),
            });
            let router = router(server, &Access::default(), &shutdown)
                .layer(from_fn_with_state(Arc::clone(&wire), lossy));
            let (listener, address) = loopback().await;
            tokio::spawn(serve(listener, router, shutdown.clone()));
            replicas.push(address);
            wires.push(wire);
        }
        let (listener, address) = loopback().await;
        tokio::spawn(balancer::serve(
            listener,
            replicas.iter().map(ToString::to_string).collect(),
            shutdown.clone(),
        ));
        let uri = format!("http://{address}/mcp");
        let retries = Arc::default();
        Self {
            replicas,
            uri,
            client,
            wires,
            lose,
            retries,
            _shutdown: shutdown.end_on_drop(),
        }
    }

    pub(crate) fn caller(&self) -> Caller {
        Caller::new(
            &self.uri,
            Duration::from_secs(20),
            Arc::clone(&self.retries),
        )
    }

    pub(crate) fn lose_next_answer(&self, execution: Execution) {
        *self.lose.lock().unwrap() = Some(execution);
    }

    /// Lets time pass, for the store as for everything else here.
    pub(crate) async fn advance(&self, time: Duration) {
        tokio::time::pause();
        tokio::time::advance(time).await;
        tokio::time::resume();
    }

    /// How many requests each replica was sent.
    pub(crate) fn served(&self) -> Vec<u64> {
        self.wires
            .iter()
            .map(|wire| wire.served.load(Ordering::Relaxed))
            .collect()
    }

    /// How often clients called again.
    pub(crate) fn retries(&self) -> u64 {
        self.retries.load(Ordering::Relaxed)
    }

    /// Stores a handle that is no cart among the carts, and an order that is none.
    pub(crate) async fn spoil(&self, id: &str) {
        let mut put = PutRequest {
            store: "cart".to_owned(),
            id: id.to_owned(),
            value: b"\xff no JSON"[..].into(),
            ..PutRequest::default()
        };
        put.lifetime = Some(Lifetime {
            absolute: Some(Absolute::Never(Unit {})),
            idle_ttl_ms: None,
        });
        self.client.call(put).await.unwrap();
        let keys = self.client.keys(KeyOptions::shared());
        keys.store(&format!("{ORDERS}{id}"), &serde_json::json!("no order"))
            .await
            .unwrap();
    }

    /// What the store holds, read without the server.
    pub(crate) async fn held(&self) -> Held {
        Held::read(&self.client, "cart").await.unwrap()
    }
}

/// Passes requests on; but the one whose answer is to be lost ends with a broken connection, as when the replica dies.
async fn lossy(State(wire): State<Arc<Wire>>, request: Request, next: Next) -> Response {
    wire.served.fetch_add(1, Ordering::Relaxed);
    let lost = wire.lose.lock().unwrap().take();
    match lost {
        None => return next.run(request).await,
        Some(Execution::Undone) => {}
        Some(Execution::Done) => {
            let answer = next.run(request).await;
            assert!(answer.status().is_success(), "it was carried out");
            // The handler writes before it answers, and the answer is whole before it is lost.
            axum::body::to_bytes(answer.into_body(), 1 << 20)
                .await
                .unwrap();
        }
    }
    let broken = io::Error::other("the replica died");
    Response::new(Body::from_stream(futures::stream::iter([Err::<Bytes, _>(
        broken,
    )])))
}

async fn loopback() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// The status of an answer to a bare HTTP request.
pub(crate) async fn http(address: SocketAddr, method: &str, path: &str, headers: &str) -> u16 {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("{method} {path} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}
