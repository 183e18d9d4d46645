//! The Exchange streams to one node: as many as there is work for.
//!
//! One stream carries what comes at the same time in one batch, which is what makes calls cheap; so another is opened only when
//! those before it are busy, each over a connection of its own, and a node with many cores serves them side by side.

mod stream;

use std::sync::{Arc, Mutex, PoisonError};

use tokio::task::AbortHandle;

pub(crate) use self::stream::ExchangeStream;
#[cfg(any(test, fuzzing))]
pub use self::stream::exchange_reply;
use crate::cluster::{
    limits::{EXCHANGE_BUSY_CALLS, EXCHANGE_STREAMS_MAX},
    node_connection::NodeConnection,
};

/// The streams to one node.
#[derive(Debug, Default)]
pub(crate) struct Streams(Mutex<Vec<Opened>>);

#[derive(Debug)]
struct Opened {
    stream: Arc<ExchangeStream>,
    reading: AbortHandle,
}

impl Streams {
    /// The stream for the next call: the first that is not busy, or else the least busy. Needs a tokio runtime around it.
    pub(crate) fn pick(&self, connect: impl FnOnce() -> NodeConnection) -> Arc<ExchangeStream> {
        let mut streams = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        streams.retain(|opened| !opened.stream.is_over());
        let free = streams
            .iter()
            .find(|opened| opened.stream.in_flight() < EXCHANGE_BUSY_CALLS);
        if let Some(free) = free {
            return Arc::clone(&free.stream);
        }
        if streams.len() < EXCHANGE_STREAMS_MAX {
            let (stream, reading) = ExchangeStream::open(connect());
            streams.push(Opened {
                stream: Arc::clone(&stream),
                reading,
            });
            return stream;
        }
        let least = streams
            .iter()
            .min_by_key(|opened| opened.stream.in_flight())
            .expect("at the bound there is one");
        Arc::clone(&least.stream)
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        let streams = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        for opened in streams {
            opened.reading.abort();
        }
    }
}
