//! A proxy in front of a node that can cut a connection after a call went through and before its reply came back.
//!
//! That is the moment at which only exactly-once execution helps: the node has acted, the caller cannot know, and must call
//! again. The proxy finds it without guessing: replies are HTTP/2 DATA frames, so once the scissors are armed the first DATA
//! frame that the node sends is withheld, and both sides are closed. It holds the node's certificate, and speaks TLS on both
//! sides: nothing that passes is seen on the wire.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use helve_node::tls::{PortTls, trusting};
use rustls::ClientConfig;
use tokio::{
    io::{self, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};
use tokio_util::sync::CancellationToken;

use super::{frames::Frames, secrets::Secrets};

/// A node, as it is reached and stood in for.
#[derive(Clone)]
pub(super) struct NodeProxy {
    node: SocketAddr,
    accept: TlsAcceptor,
    dial: TlsConnector,
}

impl NodeProxy {
    /// In front of the node at this place and address.
    ///
    /// # Errors
    /// If its certificate or the CA cannot be used.
    pub(super) fn of(secrets: &Secrets, place: usize, node: SocketAddr) -> anyhow::Result<Self> {
        let accept = PortTls::read(secrets.port(place))?.server();
        let mut dial = ClientConfig::clone(&*trusting(&secrets.ca())?);
        dial.alpn_protocols.clone_from(&accept.alpn_protocols);
        Ok(Self {
            node,
            accept: accept.into(),
            dial: Arc::new(dial).into(),
        })
    }

    /// Both sides of a connection, once both have proved who they are.
    async fn join(
        &self,
        client: TcpStream,
    ) -> io::Result<(server::TlsStream<TcpStream>, client::TlsStream<TcpStream>)> {
        let node = TcpStream::connect(self.node).await?;
        // A proxy that delays small frames would slow every call by the other side's delayed acknowledgement.
        client.set_nodelay(true)?;
        node.set_nodelay(true)?;
        let name = self.node.ip().into();
        tokio::try_join!(self.accept.accept(client), self.dial.connect(name, node))
    }
}

/// Shared by all the proxies of one client.
#[derive(Debug, Default)]
pub(super) struct Scissors {
    /// Which of the coming replies is cut, from 1; 0: none.
    armed: AtomicU64,
    cuts: AtomicU64,
}

impl Scissors {
    /// The `nth` of the coming replies is cut, from 1. The client must have no other call under way.
    pub(super) fn arm(&self, nth: u64) {
        self.armed.store(nth, Ordering::SeqCst);
    }

    /// Takes back an arming that met no reply.
    pub(super) fn disarm(&self) {
        self.armed.store(0, Ordering::SeqCst);
    }

    /// How many replies were cut.
    pub(super) fn cuts(&self) -> u64 {
        self.cuts.load(Ordering::SeqCst)
    }

    /// Whether this reply is to be cut.
    fn cut(&self) -> bool {
        let count_down = |armed: u64| armed.checked_sub(1);
        let armed = self
            .armed
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, count_down);
        let cut = armed == Ok(1);
        self.cuts.fetch_add(u64::from(cut), Ordering::SeqCst);
        cut
    }
}

/// Passes connections on to the node until `shutdown` is cancelled.
///
/// # Errors
/// If the listener fails.
pub(super) async fn serve(
    listener: TcpListener,
    proxy: NodeProxy,
    scissors: Arc<Scissors>,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (client, _) = accepted?;
                connections.spawn(pass(client, proxy.clone(), Arc::clone(&scissors)));
            }
            Some(_) = connections.join_next() => {}
            () = shutdown.cancelled() => return Ok(()),
        }
    }
}

/// Passes bytes both ways until either side ends or the scissors cut. Dropping the streams closes both sides.
async fn pass(client: TcpStream, proxy: NodeProxy, scissors: Arc<Scissors>) {
    let Ok((client, node)) = proxy.join(client).await else {
        return;
    };
    let (mut from_client, to_client) = io::split(client);
    let (from_node, mut to_node) = io::split(node);
    tokio::select! {
        _ = io::copy(&mut from_client, &mut to_node) => {}
        _ = pass_replies(from_node, to_client, &scissors) => {}
    }
}

async fn pass_replies(
    mut from_node: impl AsyncRead + Unpin,
    mut to_client: impl AsyncWrite + Unpin,
    scissors: &Scissors,
) -> io::Result<()> {
    let mut frames = Frames::default();
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = from_node.read(&mut buffer).await?;
        if read == 0 || (frames.bring_data(&buffer[..read]) && scissors.cut()) {
            return Ok(());
        }
        to_client.write_all(&buffer[..read]).await?;
        // What TLS still holds would be a reply that is late until the next one comes.
        to_client.flush().await?;
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::watch;
    use tokio_util::sync::DropGuard;

    use super::*;
    use crate::demo::frames::frame;

    async fn bound() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    /// Answers each byte with headers and data, and counts what it was sent.
    async fn answer(node: TcpListener, proxy: NodeProxy, served: watch::Sender<u64>) {
        loop {
            let (stream, _) = node.accept().await.unwrap();
            let Ok(mut stream) = proxy.accept.accept(stream).await else {
                continue;
            };
            while stream.read_u8().await.is_ok() {
                served.send_modify(|calls| *calls += 1);
                let reply = [frame(1, b"headers"), frame(0, b"reply")].concat();
                stream.write_all(&reply).await.unwrap();
                stream.flush().await.unwrap();
            }
        }
    }

    /// A node and the proxy before it.
    struct Scene {
        address: SocketAddr,
        proxy: NodeProxy,
        scissors: Arc<Scissors>,
        calls: watch::Receiver<u64>,
        _shutdown: DropGuard,
    }

    impl Scene {
        async fn set() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let secrets = Secrets::of_one_node(directory.path()).unwrap();
            let (listener, node) = bound().await;
            let proxy = NodeProxy::of(&secrets, 0, node).unwrap();
            let (served, calls) = watch::channel(0);
            tokio::spawn(answer(listener, proxy.clone(), served));
            let (listener, address) = bound().await;
            let scissors = Arc::<Scissors>::default();
            let shutdown = CancellationToken::new();
            let (cutting, stopped) = (Arc::clone(&scissors), shutdown.clone());
            tokio::spawn(serve(listener, proxy.clone(), cutting, stopped));
            Self {
                address,
                proxy,
                scissors,
                calls,
                _shutdown: shutdown.drop_guard(),
            }
        }

        /// One call on a new connection; none if it was cut.
        async fn call(&self) -> Option<Vec<u8>> {
            let stream = TcpStream::connect(self.address).await.unwrap();
            let name = self.address.ip().into();
            let mut stream = self.proxy.dial.connect(name, stream).await.unwrap();
            stream.write_u8(1).await.unwrap();
            stream.flush().await.unwrap();
            let mut reply = vec![0; 9 + 7 + 9 + 5];
            stream.read_exact(&mut reply).await.ok().map(|_| reply)
        }
    }

    #[tokio::test]
    async fn an_armed_proxy_withholds_one_reply_to_a_call_that_went_through() {
        let scene = Scene::set().await;
        let scissors = &scene.scissors;
        assert!(scene.call().await.is_some());
        scissors.arm(2);
        assert!(scene.call().await.is_some());
        assert_eq!(scene.call().await, None);
        assert_eq!((*scene.calls.borrow(), scissors.cuts()), (3, 1));
        assert!(scene.call().await.is_some());
        scissors.arm(1);
        scissors.disarm();
        assert!(scene.call().await.is_some());
        assert_eq!(scissors.cuts(), 1);
    }

    #[tokio::test]
    async fn a_caller_in_plain_text_reaches_no_node() {
        let scene = Scene::set().await;
        let mut plain = TcpStream::connect(scene.address).await.unwrap();
        plain.write_all(&[1; 64]).await.unwrap();
        let mut answer = Vec::new();
        // It may be told off in TLS, or see its connection closed.
        let _ended = plain.read_to_end(&mut answer).await;
        assert!(!answer.windows(5).any(|part| part == b"reply"));
        assert_eq!(*scene.calls.borrow(), 0);
    }
}
