//! A TCP proxy in front of a node that can cut a connection after a call went through and before its reply came back.
//!
//! That is the moment at which only exactly-once execution helps: the node has acted, the caller cannot know, and must call
//! again. The proxy finds it without guessing: replies are HTTP/2 DATA frames, so once the scissors are armed the first DATA
//! frame that the node sends is withheld, and both sides are closed.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

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

/// Passes connections on to `node` until `shutdown` is cancelled.
///
/// # Errors
/// If the listener fails.
pub(super) async fn serve(
    listener: TcpListener,
    node: SocketAddr,
    scissors: Arc<Scissors>,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (client, _) = accepted?;
                connections.spawn(pass(client, node, Arc::clone(&scissors)));
            }
            Some(_) = connections.join_next() => {}
            () = shutdown.cancelled() => return Ok(()),
        }
    }
}

/// Passes bytes both ways until either side ends or the scissors cut. Dropping the streams closes both sides.
async fn pass(client: TcpStream, node: SocketAddr, scissors: Arc<Scissors>) {
    let Ok(node) = TcpStream::connect(node).await else {
        return;
    };
    // A proxy that delays small frames would slow every call by the other side's delayed acknowledgement.
    let (_, _) = (client.set_nodelay(true), node.set_nodelay(true));
    let (mut from_client, to_client) = client.into_split();
    let (from_node, mut to_node) = node.into_split();
    tokio::select! {
        _ = tokio::io::copy(&mut from_client, &mut to_node) => {}
        _ = pass_replies(from_node, to_client, &scissors) => {}
    }
}

async fn pass_replies(
    mut from_node: OwnedReadHalf,
    mut to_client: OwnedWriteHalf,
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
    }
}

/// Finds the frames in one direction of an HTTP/2 connection.
#[derive(Default)]
struct Frames {
    header: [u8; 9],
    header_bytes: usize,
    payload_left: usize,
}

impl Frames {
    /// Takes in the next bytes of the connection; true if a DATA frame with a payload begins in them.
    fn bring_data(&mut self, mut bytes: &[u8]) -> bool {
        const DATA: u8 = 0;
        let mut data = false;
        while !bytes.is_empty() {
            let skipped = self.payload_left.min(bytes.len());
            self.payload_left -= skipped;
            bytes = &bytes[skipped..];
            let taken = (self.header.len() - self.header_bytes).min(bytes.len());
            if self.payload_left > 0 || taken == 0 {
                continue;
            }
            self.header[self.header_bytes..][..taken].copy_from_slice(&bytes[..taken]);
            self.header_bytes += taken;
            bytes = &bytes[taken..];
            if self.header_bytes == self.header.len() {
                let [high, middle, low, kind, ..] = self.header;
                self.payload_left =
                    usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
                self.header_bytes = 0;
                data |= kind == DATA && self.payload_left > 0;
            }
        }
        data
    }
}

#[cfg(test)]
mod tests {
    use std::{net::SocketAddr, sync::Arc};

    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::{TcpListener, TcpStream},
    };
    use tokio_util::sync::CancellationToken;

    use super::{Frames, Scissors, serve};

    /// A node that answers each byte with headers and data, and counts what it was sent.
    async fn node() -> (SocketAddr, tokio::sync::watch::Receiver<u64>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (served, calls) = tokio::sync::watch::channel(0);
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                while stream.read_u8().await.is_ok() {
                    served.send_modify(|calls| *calls += 1);
                    let reply = [frame(1, b"headers"), frame(0, b"reply")].concat();
                    stream.write_all(&reply).await.unwrap();
                }
            }
        });
        (address, calls)
    }

    /// One call on a new connection; none if it was cut.
    async fn call(proxy: SocketAddr) -> Option<Vec<u8>> {
        let mut stream = TcpStream::connect(proxy).await.unwrap();
        stream.write_u8(1).await.unwrap();
        let mut reply = vec![0; 9 + 7 + 9 + 5];
        stream.read_exact(&mut reply).await.ok().map(|_| reply)
    }

    #[tokio::test]
    async fn an_armed_proxy_withholds_one_reply_to_a_call_that_went_through() {
        let (node, calls) = node().await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = listener.local_addr().unwrap();
        let scissors = Arc::new(Scissors::default());
        let shutdown = CancellationToken::new();
        tokio::spawn(serve(
            listener,
            node,
            Arc::clone(&scissors),
            shutdown.clone(),
        ));
        let _guard = shutdown.drop_guard();
        assert!(call(proxy).await.is_some());
        scissors.arm(2);
        assert!(call(proxy).await.is_some());
        assert_eq!(call(proxy).await, None);
        assert_eq!((*calls.borrow(), scissors.cuts()), (3, 1));
        assert!(call(proxy).await.is_some());
        scissors.arm(1);
        scissors.disarm();
        assert!(call(proxy).await.is_some());
        assert_eq!(scissors.cuts(), 1);
    }

    fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
        let length = u8::try_from(payload.len()).unwrap();
        [&[0, 0, length, kind, 0, 0, 0, 0, 1], payload].concat()
    }

    #[test]
    fn data_is_told_from_other_frames_wherever_reads_end() {
        let settings = frame(4, &[0; 6]);
        let headers = frame(1, &[0; 20]);
        let data = frame(0, &[0; 5]);
        let stream = [settings.clone(), headers.clone(), data, headers.clone()].concat();
        let data_at = settings.len() + headers.len();
        for size in 1..stream.len() {
            let mut frames = Frames::default();
            let found: Vec<_> = stream
                .chunks(size)
                .enumerate()
                .filter_map(|(number, chunk)| frames.bring_data(chunk).then_some(number))
                .collect();
            assert_eq!(found, [(data_at + 8) / size], "reads of {size} bytes");
        }
    }

    #[test]
    fn an_empty_data_frame_is_no_reply() {
        assert!(!Frames::default().bring_data(&frame(0, &[])));
    }
}
