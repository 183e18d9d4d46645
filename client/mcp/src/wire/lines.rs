//! A transport of lines, one message each, that answers every line which wants an answer.

use std::{io, sync::Arc};

use helve_http::Shutdown;
use rmcp::{
    RoleServer,
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader},
    sync::{Mutex, mpsc, oneshot},
};

use super::{
    envelope::{Envelope, id_at_end},
    message::{self, Refusal},
    short,
    under_way::UnderWay,
    weight::weigh,
};

/// Messages that wait to be written.
const QUEUE_MAX: usize = 16;
/// Bytes of the end of an over-long line that are kept, for its id.
const TAIL_BYTES: usize = 4096;

type Written = oneshot::Sender<io::Result<()>>;

/// The lines of one client. Clones read on where the other one stopped: a session that does not begin leaves the client to the next.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    reader: Arc<Mutex<Reader<R>>>,
    writer: mpsc::Sender<(Vec<u8>, Written)>,
    under_way: UnderWay,
    shutdown: Shutdown,
}

impl<R> Clone for Lines<R> {
    fn clone(&self) -> Self {
        Self {
            reader: Arc::clone(&self.reader),
            writer: self.writer.clone(),
            under_way: self.under_way.clone(),
            shutdown: self.shutdown.clone(),
        }
    }
}

#[derive(Debug)]
struct Reader<R> {
    input: BufReader<R>,
    line: Vec<u8>,
    line_bytes_max: usize,
    over: Option<Over>,
    /// An answer that waits for room in the queue.
    pending: Option<Value>,
    /// Says when the last such answer is written.
    unwritten: Option<oneshot::Receiver<io::Result<()>>>,
    has_ended: bool,
}

/// What is kept of a line over the bound.
#[derive(Debug)]
struct Over {
    /// The id, if the beginning has one.
    id: Value,
    /// The last bytes.
    tail: Vec<u8>,
}

/// What one look at the input found.
enum Read {
    Line,
    TooLong(Value),
    Part,
    End,
    /// The server is asked to stop, and no request is under way but subscriptions.
    Drained,
}

impl<R: AsyncRead + Unpin + Send + 'static> Lines<R> {
    /// Reads lines of at most `line_bytes_max` from `input`, and writes to `output` until all
    /// clones are gone. Once `shutdown` has begun, requests are refused, and the lines end when none
    /// is under way but subscriptions. They end the shutdown then, as those have no other end.
    pub(crate) fn new(
        input: R,
        output: impl AsyncWrite + Unpin + Send + 'static,
        line_bytes_max: usize,
        shutdown: Shutdown,
    ) -> Self {
        let (writer, queue) = mpsc::channel(QUEUE_MAX);
        tokio::spawn(write(output, queue));
        let reader = Reader {
            input: BufReader::new(input),
            line: Vec::new(),
            line_bytes_max,
            over: None,
            pending: None,
            unwritten: None,
            has_ended: false,
        };
        Self {
            reader: Arc::new(Mutex::new(reader)),
            writer,
            under_way: UnderWay::default(),
            shutdown,
        }
    }

    /// Waits until the server is asked to stop and no request is under way but subscriptions. What
    /// the others still wait for, such as an answer of the client, is read meanwhile.
    async fn is_drained(&self) {
        self.shutdown.begun().await;
        self.under_way.none().await;
    }

    /// Takes note of a message. What is not begun must be known as that.
    fn received(&self, message: &RxJsonRpcMessage<RoleServer>) -> Result<(), Refusal> {
        match message {
            RxJsonRpcMessage::<RoleServer>::Request(request) if self.shutdown.is_begun() => {
                Err(Refusal::stopping(&request.id))
            }
            message => self
                .under_way
                .received(message)
                .map_err(|id| Refusal::in_use(&id)),
        }
    }
}

async fn write(mut output: impl AsyncWrite + Unpin, mut queue: mpsc::Receiver<(Vec<u8>, Written)>) {
    while let Some((mut line, written)) = queue.recv().await {
        line.push(b'\n');
        let result = match output.write_all(&line).await {
            Ok(()) => output.flush().await,
            Err(error) => Err(error),
        };
        // The caller may have stopped waiting.
        let _gone = written.send(result);
    }
}

fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "standard output is closed")
}

impl<R: AsyncRead + Unpin + Send + 'static> Transport<RoleServer> for Lines<R> {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let writer = self.writer.clone();
        self.under_way.sent(&message);
        let message = short::message(message);
        async move {
            let line = serde_json::to_vec(&message)?;
            let (written, is_written) = oneshot::channel();
            let sent = writer.send((line, written)).await;
            sent.map_err(|_| closed())?;
            is_written.await.map_err(|_| closed())?
        }
    }

    /// May be dropped at any await and called again: what was read of a line, and an answer that is not queued yet, stay.
    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        let mut reader = self.reader.lock().await;
        loop {
            if reader.pending.is_some() {
                let room = self.writer.reserve().await.ok()?;
                if let Some(answer) = reader.pending.take() {
                    let (written, is_written) = oneshot::channel();
                    room.send((answer.to_string().into_bytes(), written));
                    reader.unwritten = Some(is_written);
                }
            }
            let reader = &mut *reader;
            let read = tokio::select! {
                biased;
                () = self.is_drained() => Read::Drained,
                read = reader.look() => read,
            };
            match read {
                Read::Part => {}
                Read::TooLong(id) => reader.refuse(&Refusal::too_large(id)),
                Read::Line => {
                    if let Some(message) = reader.take_line() {
                        match self.received(&message) {
                            Ok(()) => return Some(message),
                            Err(refusal) => reader.refuse(&refusal),
                        }
                    }
                }
                Read::End => {
                    reader.is_written().await;
                    return None;
                }
                Read::Drained => {
                    reader.is_written().await;
                    // Only now: once it has ended, rmcp no longer waits for this.
                    self.shutdown.end();
                    return None;
                }
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<R: AsyncRead + Unpin> Reader<R> {
    /// Takes what is there of a line. Nothing is lost if this is dropped while it waits.
    async fn look(&mut self) -> Read {
        if self.has_ended {
            return Read::End;
        }
        let available = match self.input.fill_buf().await {
            Ok(available) => available,
            Err(error) => {
                tracing::error!(%error, "standard input cannot be read");
                &[]
            }
        };
        if available.is_empty() {
            self.has_ended = true;
            // The last line need not end.
            return match self.over.take() {
                Some(over) => Read::TooLong(over.id()),
                None => Read::Line,
            };
        }
        let newline = available.iter().position(|byte| *byte == b'\n');
        let taken = newline.map_or(available.len(), |at| at + 1);
        let part = &available[..newline.unwrap_or(taken)];
        take(&mut self.line, &mut self.over, part, self.line_bytes_max);
        self.input.consume(taken);
        match (newline, self.over.is_some()) {
            (None, _) => Read::Part,
            (Some(_), false) => Read::Line,
            (Some(_), true) => Read::TooLong(self.over.take().map_or(Value::Null, Over::id)),
        }
    }

    /// The message of the line that is whole.
    fn take_line(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        let line = std::mem::take(&mut self.line);
        if line.trim_ascii().is_empty() {
            return None;
        }
        let text = message::unmarked(&line);
        match weigh(text).and_then(|_| message::read(text)) {
            Ok(message) => Some(message),
            Err(refusal) => {
                self.refuse(&refusal);
                None
            }
        }
    }

    /// Waits until the last answer of this layer is written.
    async fn is_written(&mut self) {
        if let Some(is_written) = &mut self.unwritten {
            // An error is logged where it arose, and the client is gone.
            let _gone = is_written.await;
        }
    }

    fn refuse(&mut self, refusal: &Refusal) {
        tracing::warn!(?refusal, "a line is refused");
        if !refusal.envelope.is_unanswered() {
            self.pending = Some(refusal.answer(&refusal.envelope.id));
        }
    }
}

/// Adds a part to a line, or to what is kept of one that is too long.
fn take(line: &mut Vec<u8>, over: &mut Option<Over>, part: &[u8], line_bytes_max: usize) {
    if over.is_none() && line.len() + part.len() <= line_bytes_max {
        line.extend_from_slice(part);
        return;
    }
    let kept = if over.is_none() {
        part.len().min(line_bytes_max - line.len())
    } else {
        0
    };
    line.extend_from_slice(&part[..kept]);
    let over = over.get_or_insert_with(|| Over {
        id: Envelope::of(line).id,
        tail: line[line.len().saturating_sub(TAIL_BYTES)..].to_vec(),
    });
    *line = Vec::new();
    over.tail.extend_from_slice(&part[kept..]);
    over.tail
        .drain(..over.tail.len().saturating_sub(TAIL_BYTES));
}

impl Over {
    fn id(self) -> Value {
        if self.id.is_null() {
            id_at_end(&self.tail)
        } else {
            self.id
        }
    }
}

#[cfg(test)]
mod tests;
