//! Streams of HTTP/2 that are opened and then silent, in frames made here (RFC 9113, 6).

use std::{
    collections::HashSet,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result};
use futures::future::try_join_all;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpStream, tcp::OwnedReadHalf, tcp::OwnedWriteHalf},
    sync::oneshot,
    task::JoinSet,
    time::timeout,
};

/// The preface of HTTP/2, and settings that leave everything as it is.
const GREETING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// A ping, which the node answers behind all that came before.
const PING: &[u8] = b"\0\0\x08\x06\0\0\0\0\0silent!!";

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const PING_KIND: u8 = 6;
const END_HEADERS: u8 = 4;
const END_STREAM: u8 = 1;

/// Connections with streams on which nothing comes. They end when this is dropped.
pub struct Silent {
    /// Streams that the node has ended.
    ended: Arc<AtomicUsize>,
    _writing: Vec<OwnedWriteHalf>,
    _reading: JoinSet<()>,
}

impl Silent {
    /// Opens this many streams for this call on each of this many connections at once, with a
    /// token or without. Returns once the node has read them all, or has let each connection wait
    /// for `patience`.
    ///
    /// # Errors
    ///
    /// If a connection is refused or broken.
    pub async fn open(
        address: SocketAddr,
        (path, token): (&str, Option<&str>),
        connections: usize,
        streams_each: u32,
        patience: Duration,
    ) -> Result<Self> {
        let ended = Arc::<AtomicUsize>::default();
        let mut all = GREETING.to_vec();
        // A client's streams have odd numbers.
        for stream in (1..2 * streams_each).step_by(2) {
            all.extend(opened(stream, path, token));
        }
        all.extend(PING);
        let mut reading = JoinSet::new();
        let mut answered = Vec::new();
        for _ in 0..connections {
            let (read, mut write) = TcpStream::connect(address).await?.into_split();
            let (pong, is_read) = oneshot::channel();
            reading.spawn(frames(read, Arc::clone(&ended), pong));
            let all = &all;
            answered.push(async move {
                let sent = async {
                    write.write_all(all).await?;
                    is_read.await.context("the connection was closed")
                };
                // Who was not answered by then goes on with other connections.
                timeout(patience, sent).await.unwrap_or(Ok(()))?;
                Ok::<_, anyhow::Error>(write)
            });
        }
        Ok(Self {
            ended,
            _writing: try_join_all(answered).await?,
            _reading: reading,
        })
    }

    /// Streams that the node has ended so far.
    #[must_use]
    pub fn ended(&self) -> usize {
        self.ended.load(Ordering::Relaxed)
    }
}

/// A frame that opens a stream: POST and http, as the static table has them, and fields that are named there (RFC 7541, appendix A).
fn opened(stream: u32, path: &str, token: Option<&str>) -> Vec<u8> {
    let bearer = token.map(|token| format!("Bearer {token}"));
    let mut headers = vec![0x83, 0x86];
    let mut fields = vec![
        (&[1][..], "helve"),
        (&[4][..], path),
        (&[15, 16][..], "application/grpc"),
    ];
    fields.extend(bearer.as_deref().map(|bearer| (&[15, 8][..], bearer)));
    for (name, value) in fields {
        headers.extend(name);
        headers.push(u8::try_from(value.len()).expect("a short value"));
        headers.extend(value.as_bytes());
    }
    let length = u8::try_from(headers.len()).expect("few headers");
    let head = [0, 0, length, HEADERS, END_HEADERS];
    [&head[..], &stream.to_be_bytes(), &headers].concat()
}

/// Reads frames until the connection ends, counts streams that end, and says when the ping was answered.
async fn frames(mut connection: OwnedReadHalf, ended: Arc<AtomicUsize>, pong: oneshot::Sender<()>) {
    let mut pong = Some(pong);
    let mut head = [0; 9];
    // A stream may be answered and then reset.
    let (mut over, mut counted) = (HashSet::new(), 0);
    while connection.read_exact(&mut head).await.is_ok() {
        let [a, b, c, kind, flags, stream @ ..] = head;
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        let mut content = vec![0; length];
        if connection.read_exact(&mut content).await.is_err() {
            return;
        }
        match kind {
            PING_KIND => {
                // The test that waited may have ended.
                let _ = pong.take().map(|pong| pong.send(()));
            }
            RST_STREAM => drop(over.insert(stream)),
            HEADERS if flags & END_STREAM != 0 => drop(over.insert(stream)),
            _ => continue,
        }
        let more = over.len() - counted;
        counted = over.len();
        ended.fetch_add(more, Ordering::Relaxed);
    }
}
