//! Connections over TLS, each with the certificates that are in force when it is made.

use std::{
    error::Error as StdError,
    io,
    task::{Context, Poll},
    time::Duration,
};

use futures::future::BoxFuture;
use hyper_util::{client::legacy::connect::HttpConnector, rt::TokioIo};
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};
use tonic::codegen::{Service, http::Uri};

use super::{ALPN_H2, Tls};

/// Connects over TLS.
#[derive(Clone)]
pub(crate) struct Secured {
    tcp: HttpConnector,
    tls: Tls,
    /// What the node's certificate must name.
    name: ServerName<'static>,
}

impl Secured {
    pub(crate) fn new(connect_timeout: Duration, tls: Tls, name: ServerName<'static>) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(connect_timeout));
        Self { tcp, tls, name }
    }
}

impl Service<Uri> for Secured {
    type Response = TokioIo<TlsStream<TcpStream>>;
    type Error = Box<dyn StdError + Send + Sync>;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.tcp.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, address: Uri) -> Self::Future {
        let connecting = self.tcp.call(address);
        let (tls, name) = (self.tls.clone(), self.name.clone());
        Box::pin(async move {
            let stream = connecting.await?.into_inner();
            let connector = TlsConnector::from(tls.current().await?);
            let stream = connector.connect(name, stream).await?;
            let (_, session) = stream.get_ref();
            if session.alpn_protocol() != Some(ALPN_H2) {
                return Err(io::Error::other("what listens there does not speak HTTP/2").into());
            }
            Ok(TokioIo::new(stream))
        })
    }
}
