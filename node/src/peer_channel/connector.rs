//! Connects to a node over mutual TLS, each time by the newest certificates.

use std::{
    error::Error,
    io,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use futures::future::BoxFuture;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};
use tonic::{codegen::Service, transport::Uri};

use crate::{log_throttle::LogThrottle, tls::PortTls};

/// Makes connections for one channel.
#[derive(Debug, Clone)]
pub(super) struct Connector {
    tls: Arc<PortTls>,
    log_throttle: Arc<LogThrottle>,
}

impl Connector {
    pub(super) fn new(tls: Arc<PortTls>, log_throttle: Arc<LogThrottle>) -> Self {
        Self { tls, log_throttle }
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<TlsStream<TcpStream>>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Self::Response>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, peer: Uri) -> Self::Future {
        let Self { tls, log_throttle } = self.clone();
        Box::pin(async move {
            let connected = connect(&tls, &peer).await;
            // The dialler tries again and again, and knows only that no peer answers.
            if let Err(error) = &connected
                && is_of_tls(error)
                && let Some(times) = log_throttle.count(Instant::now())
            {
                tracing::warn!(%peer, times, %error, "no TLS with a peer: compare --peer-tls-ca and the certificates on both");
            }
            Ok(TokioIo::new(connected?))
        })
    }
}

fn is_of_tls(error: &io::Error) -> bool {
    let inner = error.get_ref();
    inner.is_some_and(<dyn Error + Send + Sync>::is::<rustls::Error>)
}

async fn connect(tls: &PortTls, peer: &Uri) -> io::Result<TlsStream<TcpStream>> {
    let host = peer.host().unwrap_or_default();
    // An IPv6 address is in brackets in a URI, and in a certificate without.
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    let dial = tls
        .dial()
        .ok_or_else(|| io::Error::other("this is no TLS for nodes"))?;
    let stream = TcpStream::connect((host, peer.port_u16().unwrap_or(0))).await?;
    stream.set_nodelay(true)?;
    TlsConnector::from(dial).connect(name, stream).await
}
