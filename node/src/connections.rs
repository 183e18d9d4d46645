//! Who is let in at a port for gRPC, how many at once, and over TLS where the port has it.
//!
//! A stranger can hold a place only for [`GREETING_TIME_MAX`]: TLS handshakes are bounded in number and time, the greeting of HTTP/2 in
//! time, and from then on the connection answers probes or is closed. Each port has bounds of its own, so that no client takes a peer's
//! place.

mod connection;

use std::{
    collections::{HashMap, VecDeque},
    fmt::Display,
    io,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{Stream, stream};
use helve_http::Address;
use prometheus_client::metrics::{counter::Counter, gauge::Gauge};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    task::{AbortHandle, JoinError, JoinSet},
    time::{sleep, timeout},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::either::Either;

pub use self::connection::{Connection, Info};
use crate::{
    keyed_places::{KeyedPlace, KeyedPlaces},
    limits::{
        CLIENT_CONNECTIONS_MAX, FILES_RESERVED, GREETING_TIME_MAX, HANDSHAKES_MAX,
        PEER_CONNECTIONS_MAX,
    },
    log_throttle::LogThrottle,
    tls::PortTls,
};

/// Between two tries to accept a connection when the operating system gives none.
const ACCEPT_PAUSE: Duration = Duration::from_millis(250);

/// How many connections a port has, may have, and has refused. Clones count together.
#[derive(Debug, Clone, Default)]
pub struct PortUse {
    /// Open connections that were let in.
    pub held: Gauge,
    /// How many there may be.
    pub limit: Gauge,
    /// TLS handshakes under way.
    pub handshakes: Gauge,
    /// Connections that were closed at once, or because they did not greet in time.
    pub refused: Counter,
}

/// The limits of a port.
#[derive(Debug, Clone)]
pub struct Bounds {
    port: &'static str,
    connections: usize,
    address_connections: usize,
    handshakes: usize,
    greeting: Duration,
    port_use: PortUse,
}

impl Bounds {
    /// Those of the client port, as far as the process may open files; it is asked to be allowed as many as it can get.
    #[must_use]
    pub fn of_clients(port_use: &PortUse) -> Self {
        let files = raise_files();
        let spare = files.saturating_sub(FILES_RESERVED).max(files / 2);
        let connections = usize::try_from(spare).map_or(CLIENT_CONNECTIONS_MAX, |spare| {
            spare.clamp(1, CLIENT_CONNECTIONS_MAX)
        });
        if connections < CLIENT_CONNECTIONS_MAX {
            tracing::info!(
                connections,
                files,
                "client connections are bounded by the limit of open files: raise it (`ulimit -n`) if more are to come"
            );
        }
        Self::of("client port", connections, port_use)
    }

    /// Those of the peer port.
    #[must_use]
    pub fn of_peers(port_use: &PortUse) -> Self {
        Self::of("peer port", PEER_CONNECTIONS_MAX, port_use)
    }

    fn of(port: &'static str, connections: usize, port_use: &PortUse) -> Self {
        let limit = i64::try_from(connections).unwrap_or(i64::MAX);
        port_use.limit.set(limit);
        Self {
            port,
            connections,
            address_connections: address_share(connections),
            handshakes: HANDSHAKES_MAX,
            greeting: GREETING_TIME_MAX,
            port_use: port_use.clone(),
        }
    }
}

/// Of this many connections, those of one address: three of four. More than half, since behind a proxy all callers have one address.
fn address_share(connections: usize) -> usize {
    connections - connections / 4
}

/// Raises the limit of open files to what the process may raise it to, and says what it is.
fn raise_files() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    let current = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(error) => {
            tracing::debug!(%error, "the limit of open files stays as it is");
            limit.current
        }
    };
    current.unwrap_or(u64::MAX)
}

/// The connections that are let in, as long as the stream is asked for more. It never ends by itself, and dropping it closes the port.
pub fn let_in(
    listener: TcpListener,
    tls: Option<Arc<PortTls>>,
    bounds: Bounds,
) -> impl Stream<Item = io::Result<Connection>> {
    let acceptor = Acceptor {
        listener,
        tls,
        places: Arc::new(Semaphore::new(bounds.connections)),
        shares: KeyedPlaces::new(bounds.address_connections),
        bounds,
        handshakes: JoinSet::new(),
        begun: VecDeque::new(),
        log_throttle: LogThrottle::default(),
    };
    stream::unfold(acceptor, |mut acceptor| async move {
        let connection = acceptor.next().await;
        Some((Ok(connection), acceptor))
    })
}

type Shaken = (SocketAddr, io::Result<TlsStream<TcpStream>>);

struct Acceptor {
    listener: TcpListener,
    tls: Option<Arc<PortTls>>,
    bounds: Bounds,
    /// A place is given back when its connection is dropped.
    places: Arc<Semaphore>,
    /// The same by address.
    shares: KeyedPlaces<Address>,
    handshakes: JoinSet<Shaken>,
    /// The handshakes under way, the oldest first, and some that have ended.
    begun: VecDeque<(Address, AbortHandle)>,
    log_throttle: LogThrottle,
}

impl Acceptor {
    async fn next(&mut self) -> Connection {
        loop {
            let connection = tokio::select! {
                Some(ended) = self.handshakes.join_next() => self.shaken(ended),
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, from)) => self.accepted(stream, from),
                    // Out of open files, or a caller that has gone already: neither is the port's end.
                    Err(error) => {
                        tracing::warn!(port = self.bounds.port, %error, "could not accept a connection");
                        sleep(ACCEPT_PAUSE).await;
                        None
                    }
                },
            };
            if let Some(connection) = connection {
                return connection;
            }
        }
    }

    fn shaken(&mut self, ended: Result<Shaken, JoinError>) -> Option<Connection> {
        self.count_handshakes();
        match ended {
            Ok((from, Ok(stream))) => self.place(from, Either::Right(stream)),
            Ok((from, Err(error))) => {
                self.warn_refused(from, &error);
                None
            }
            // Broken off, in favour of a newer one.
            Err(_) => None,
        }
    }

    fn count_handshakes(&self) {
        let count = i64::try_from(self.handshakes.len()).unwrap_or(i64::MAX);
        self.bounds.port_use.handshakes.set(count);
    }

    fn accepted(&mut self, stream: TcpStream, from: SocketAddr) -> Option<Connection> {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a caller has gone already");
            return None;
        }
        if self.places.available_permits() == 0 {
            self.warn_refused(from, &Full::All(self.bounds.connections));
            return None;
        }
        let Some(tls) = &self.tls else {
            return self.place(from, Either::Left(stream));
        };
        let accepting = TlsAcceptor::from(tls.server()).accept(stream);
        self.make_room();
        let greeting = self.bounds.greeting;
        let handshake = self.handshakes.spawn(async move {
            let shaken = timeout(greeting, accepting).await;
            (from, shaken.unwrap_or_else(|late| Err(late.into())))
        });
        self.begun.push_back((from.ip().into(), handshake));
        self.count_handshakes();
        None
    }

    /// Breaks off a handshake if there are as many as may be: the oldest of the address that has most. So an address that opens
    /// connections and says nothing breaks off its own, not those of others, which take a few round trips.
    fn make_room(&mut self) {
        if self.begun.len() < self.bounds.handshakes {
            return;
        }
        self.begun.retain(|(_, handshake)| !handshake.is_finished());
        if self.begun.len() < self.bounds.handshakes {
            return;
        }
        let mut counts = HashMap::new();
        for (address, _) in &self.begun {
            *counts.entry(*address).or_insert(0_usize) += 1;
        }
        let most = counts.values().copied().max();
        let has_most = |(address, _): &(Address, AbortHandle)| counts.get(address).copied() == most;
        if let Some(at) = self.begun.iter().position(has_most)
            && let Some((_, oldest)) = self.begun.remove(at)
        {
            oldest.abort();
            self.bounds.port_use.refused.inc();
        }
    }

    fn place(&mut self, from: SocketAddr, stream: connection::Bytes) -> Option<Connection> {
        let Some(share) = self.shares.take(from.ip().into()) else {
            self.warn_refused(from, &Full::Address(self.bounds.address_connections));
            return None;
        };
        if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            let port_use = self.bounds.port_use.clone();
            port_use.held.inc();
            let place = Place {
                _all: place,
                _address: share,
                port_use,
            };
            return Some(Connection::new(stream, from, place, self.bounds.greeting));
        }
        self.warn_refused(from, &Full::All(self.bounds.connections));
        None
    }

    fn warn_refused(&self, from: SocketAddr, why: &dyn Display) {
        let port = self.bounds.port;
        self.bounds.port_use.refused.inc();
        match self.log_throttle.count(Instant::now()) {
            Some(refused) => {
                tracing::warn!(port, %from, refused, "connections were refused, the last one: {why}");
            }
            None => tracing::debug!(port, %from, "a connection was refused: {why}"),
        }
    }
}

/// A connection's place at its port, given back when this is dropped.
pub(crate) struct Place {
    _all: OwnedSemaphorePermit,
    _address: KeyedPlace<Address>,
    port_use: PortUse,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.port_use.held.dec();
    }
}

/// Why a connection is refused.
#[derive(Debug, thiserror::Error)]
enum Full {
    #[error("{0} connections are open, which is the bound")]
    All(usize),
    #[error("{0} connections of this address are open, which is its bound")]
    Address(usize),
}

#[cfg(test)]
mod tests;
