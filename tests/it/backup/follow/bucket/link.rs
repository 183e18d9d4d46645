//! A link to a store of objects, which can be cut, or answer in the store's place.

use std::{io, net::SocketAddr, sync::Arc};

use anyhow::Result;
use helve_tests::wait::{Look, until};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy, copy_bidirectional, sink},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};

/// Bytes of a request's head that are read before it is refused.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// What becomes of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Does {
    Carries,
    /// The open ones are cut, and as many new ones; those behind them are carried.
    Cuts(usize),
    /// Each request is answered as by a store that does not know the credentials.
    Refuses,
}

/// A link. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) endpoint: String,
    does: Arc<watch::Sender<Does>>,
    accepting: JoinHandle<()>,
}

impl Link {
    /// To a store of this machine.
    pub(super) async fn to(store: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let endpoint = format!("http://{}", listener.local_addr()?);
        let does = Arc::new(watch::Sender::new(Does::Carries));
        let asked = Arc::clone(&does);
        let accepting = tokio::spawn(async move {
            while let Ok((caller, _)) = listener.accept().await {
                let does = Arc::clone(&asked);
                tokio::spawn(async move {
                    // A connection that breaks is seen at its two ends.
                    let _ended = serve(caller, store, &does).await;
                });
            }
        });
        Ok(Self {
            endpoint,
            does,
            accepting,
        })
    }

    /// Does this from here on, also with the connections that are open.
    pub(super) fn now(&self, does: Does) {
        self.does.send_replace(does);
    }

    /// Cuts some connections, and waits until they were made.
    pub(super) async fn cut(&self, connections: usize) -> Result<()> {
        self.now(Does::Cuts(connections));
        until("connections to be cut", async || {
            match *self.does.borrow() {
                Does::Carries => Look::Done(()),
                does => Look::NotYet(format!("{does:?}")),
            }
        })
        .await
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn serve(
    mut caller: TcpStream,
    store: SocketAddr,
    does: &watch::Sender<Does>,
) -> io::Result<()> {
    let mut told = does.subscribe();
    // Looked at and counted down in one step: exactly as many are cut as were asked for.
    let mut now = Does::Carries;
    does.send_if_modified(|does| {
        now = *does;
        told.mark_unchanged();
        let Does::Cuts(left) = *does else {
            return false;
        };
        *does = if left > 1 {
            Does::Cuts(left - 1)
        } else {
            Does::Carries
        };
        true
    });
    match now {
        Does::Carries => {
            let mut store = TcpStream::connect(store).await?;
            tokio::select! {
                ended = copy_bidirectional(&mut caller, &mut store) => ended.map(drop),
                _ = told.changed() => Ok(()),
            }
        }
        Does::Cuts(_) => Ok(()),
        Does::Refuses => refuse(&mut caller).await,
    }
}

async fn refuse(caller: &mut TcpStream) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.windows(4).any(|found| found == b"\r\n\r\n") && head.len() < HEAD_BYTES_MAX {
        if caller.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    }
    let said = "<Error><Code>InvalidAccessKeyId</Code><Message>no</Message></Error>";
    let reply = format!(
        "HTTP/1.1 403 Forbidden\r\nContent-Type: application/xml\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{said}",
        said.len()
    );
    caller.write_all(reply.as_bytes()).await?;
    caller.shutdown().await?;
    // What is left unread would have the reply dropped.
    copy(caller, &mut sink()).await.map(drop)
}
