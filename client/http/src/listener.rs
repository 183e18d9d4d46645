//! Accepting connections until the server stops, and the order in which it stops.

use std::{future::Future, io, net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use axum::Router;
use futures::FutureExt as _;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{
    closing::close,
    connection,
    connection_state::ConnectionState,
    refusal::{Refusal, Refused},
    shutdown::Shutdown,
    site::{Port, Site},
};

/// Between two tries to accept a connection when the operating system gives none.
const ACCEPT_PAUSE: Duration = Duration::from_millis(250);
/// How long streams may take to end once they are told to.
const END_TIME_MAX: Duration = Duration::from_secs(2);
/// Connections over the bound that are told so at once; more are closed without a word.
const REFUSALS_MAX: usize = 64;

/// How a listener makes a stream of bytes of a TCP connection: plainly, or over TLS.
pub trait Open: Clone + Send + Sync + 'static {
    /// The stream.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// Whether a caller understands an answer on the bare connection.
    const IS_PLAIN: bool = false;

    /// Opens the stream. It is given up after the time for a head.
    fn open(&self, stream: TcpStream) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

/// In plain text.
#[derive(Debug, Clone, Copy)]
pub struct Plain;

impl Open for Plain {
    type Stream = TcpStream;

    const IS_PLAIN: bool = true;

    async fn open(&self, stream: TcpStream) -> io::Result<TcpStream> {
        Ok(stream)
    }
}

/// Serves these routes within the port's bounds until `shutdown` begins, and then stops in order.
///
/// When `shutdown` begins, connections are still accepted for the drain's delay, and each answer closes its
/// connection. Then the listener closes, and requests under way finish, for as long as the drain's timeout
/// allows. Then [`Shutdown::end`] is called, so that streams end, and what has not ended two seconds later is
/// broken off.
///
/// Each request carries its caller's address as axum's `ConnectInfo<SocketAddr>`.
///
/// # Errors
/// None today: a connection that fails, or cannot be accepted, is not the listener's end.
pub async fn serve<O: Open>(
    listener: TcpListener,
    open: O,
    router: Router,
    port: Port,
    shutdown: Shutdown,
) -> io::Result<()> {
    let site = Site::new(port, router, shutdown);
    let refusing = Arc::new(Semaphore::new(REFUSALS_MAX));
    let mut connections = JoinSet::new();
    let admit = |connections: &mut JoinSet<()>, (stream, from): (TcpStream, SocketAddr)| {
        if let Some(serving) = admitted(&site, &open, &refusing, stream, from) {
            connections.spawn(serving);
        }
    };
    {
        let mut stop = pin!(async {
            site.shutdown.begun().await;
            sleep(site.port.drain.delay).await;
        });
        loop {
            tokio::select! {
                () = &mut stop => break,
                Some(_) = connections.join_next() => {}
                accepted = listener.accept() => match accepted {
                    Ok(accepted) => admit(&mut connections, accepted),
                    // Out of open files, or a caller that has gone already: neither is the port's end.
                    Err(error) => {
                        tracing::warn!(port = site.port.name, %error, "could not accept a connection");
                        sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
    }
    // The operating system has accepted these already: closing the listener would reset them.
    while let Some(Ok(accepted)) = listener.accept().now_or_never() {
        admit(&mut connections, accepted);
    }
    drop(listener);
    stop(&site, connections).await;
    Ok(())
}

/// What serves a connection, or refuses it; nothing if it is closed at once.
fn admitted<O: Open>(
    site: &Arc<Site>,
    open: &O,
    refusing: &Arc<Semaphore>,
    stream: TcpStream,
    from: SocketAddr,
) -> Option<impl Future<Output = ()> + Send + use<O>> {
    site.port.traffic.accepted_one();
    let counted = site.outstanding.connection();
    let (site, open) = (Arc::clone(site), open.clone());
    let line = ConnectionState::open(&site.connections, from);
    let permit = match &line {
        Ok(_) => None,
        Err(full) => {
            site.refuses(from, (*full).into(), Refused::Connection);
            let permit = Arc::clone(refusing).try_acquire_owned().ok();
            Some(permit.filter(|_| O::IS_PLAIN)?)
        }
    };
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a caller has gone already");
        return None;
    }
    Some(async move {
        let _held = (counted, permit);
        match line {
            Ok(line) => connection::serve(site, line, open, stream).await,
            Err(full) => close(stream, &Refusal::from(full).bytes(site.port.style)).await,
        }
    })
}

/// Waits for requests under way, ends what streams, and breaks off the rest.
async fn stop(site: &Site, mut connections: JoinSet<()>) {
    site.closed.cancel();
    let drain = &site.port.drain;
    if timeout(drain.timeout, site.outstanding.none())
        .await
        .is_err()
    {
        let (port, connections) = (site.port.name, site.outstanding.count());
        let under_way = u64::try_from(connections).unwrap_or(0);
        site.port.traffic.broke_off(under_way);
        tracing::warn!(port, connections, after = ?drain.timeout, "requests are still under way: they are broken off");
    }
    site.shutdown.end();
    let ended = async { while connections.join_next().await.is_some() {} };
    if timeout(END_TIME_MAX, ended).await.is_err() {
        tracing::debug!(port = site.port.name, "connections are broken off");
    }
    connections.shutdown().await;
}
