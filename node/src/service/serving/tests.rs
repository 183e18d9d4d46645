//! Tests of how many given-up calls a connection takes from a caller, in frames of HTTP/2 (RFC 9113) made here.

use std::{sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream},
    sync::{Semaphore, mpsc},
    time::{Instant, timeout},
};

use super::{super::budget::Budgets, *};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const GO_AWAY: u8 = 7;
const END_STREAM_AND_HEADERS: u8 = 0x5;
/// `:method POST`, `:scheme http`, `:path /`, each an index of the static table (RFC 7541, appendix A).
const POST: &[u8] = &[0x83, 0x86, 0x84];
const CANCEL: u32 = 8;
const ENHANCE_YOUR_CALM: u32 = 11;

/// Longer than any test takes.
const PATIENT: Duration = Duration::from_secs(120);

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

fn call(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_STREAM_AND_HEADERS, stream, POST)
}

/// A greeting, and calls that are given up at once.
fn given_up(calls: usize) -> (Vec<u8>, u32) {
    let mut bytes = [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat();
    let mut stream = 1;
    for _ in 0..calls {
        bytes.extend(call(stream));
        bytes.extend(frame(RESET, 0, stream, &CANCEL.to_be_bytes()));
        stream += 2;
    }
    (bytes, stream)
}

/// Serves what was sent while the node looked elsewhere, with the limits of the client port. Calls are answered as there is room.
async fn serve(sent: Vec<u8>, room: &Arc<Semaphore>) -> DuplexStream {
    let (mut caller, node) = tokio::io::duplex(sent.len() + (1 << 20));
    caller.write_all(&sent).await.unwrap();
    let room = Arc::clone(room);
    let service = service_fn(move |_: Request<Incoming>| {
        let room = Arc::clone(&room);
        async move {
            room.acquire().await.unwrap().forget();
            Ok::<_, Infallible>(Response::new(Body::default()))
        }
    });
    let http = http(UnreadAnswers::default());
    tokio::spawn(async move {
        // How it ends, its caller reads.
        let _ = http.serve_connection(TokioIo::new(node), service).await;
    });
    caller
}

/// What a node sends: a kind of frame, its stream, and its payload.
async fn next_frame(caller: &mut DuplexStream) -> (u8, u32, Vec<u8>) {
    let mut head = [0; 9];
    let read = timeout(PATIENT, caller.read_exact(&mut head)).await;
    read.expect("the node sends more").unwrap();
    let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
    caller.read_exact(&mut payload).await.unwrap();
    let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
    (head[3], stream, payload)
}

/// Waits for the answer to this stream, or the error for which the connection ends. Makes room for answers after this many resets.
async fn answer(
    caller: &mut DuplexStream,
    stream: u32,
    room: &Semaphore,
    mut resets: usize,
) -> Result<(), u32> {
    loop {
        if resets == 0 {
            room.add_permits(1);
        }
        match next_frame(caller).await {
            (HEADERS, of, _) if of == stream => return Ok(()),
            (RESET, ..) => resets = resets.saturating_sub(1),
            (GO_AWAY, _, payload) => {
                return Err(u32::from_be_bytes(payload[4..8].try_into().unwrap()));
            }
            _ => {}
        }
    }
}

/// Whether a call is answered that follows this many which were given up at once.
async fn answer_after(given_up_calls: usize) -> Result<(), u32> {
    let (mut sent, next) = given_up(given_up_calls);
    sent.extend(call(next));
    let room = Arc::new(Semaphore::new(Semaphore::MAX_PERMITS / 2));
    let mut caller = serve(sent, &room).await;
    answer(&mut caller, next, &room, usize::MAX).await
}

#[tokio::test]
async fn calls_given_up_while_the_node_stalls_leave_the_connection() {
    for calls in [50, 1024, limits::CONNECTION_RESETS_PENDING_MAX] {
        assert_eq!(answer_after(calls).await, Ok(()), "{calls} resets");
    }
}

#[tokio::test]
async fn more_rapid_resets_than_the_bound_close_the_connection() {
    let calls = limits::CONNECTION_RESETS_PENDING_MAX + 1;
    assert_eq!(answer_after(calls).await, Err(ENHANCE_YOUR_CALM));
}

/// A caller may make more calls than it may have streams before it has read the settings.
#[tokio::test]
async fn calls_over_the_streams_are_refused_up_to_the_bound() {
    let forced_max = limits::CONNECTION_RESETS_FORCED_MAX;
    for (refused, expected) in [(2 * 1024, Ok(())), (forced_max + 1, Err(ENHANCE_YOUR_CALM))] {
        let room = Arc::new(Semaphore::new(0));
        let mut sent = [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat();
        for number in 0..limits::CONNECTION_STREAMS_MAX + u32::try_from(refused).unwrap() {
            sent.extend(call(2 * number + 1));
        }
        let mut caller = serve(sent, &room).await;
        let first = answer(&mut caller, 1, &room, refused).await;
        assert_eq!(first, expected, "{refused} calls too many");
    }
}

/// The transport looks at calls only once there is nothing more to read.
#[tokio::test(start_paused = true)]
async fn few_calls_of_a_new_connection_are_refused_before_it_pauses() {
    let mut sent = [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat();
    for number in 0..limits::CONNECTION_STREAMS_MAX {
        sent.extend(call(2 * number + 1));
    }
    let (mut caller, node) = tokio::io::duplex(1 << 20);
    caller.write_all(&sent).await.unwrap();
    let pace = Pace::default();
    let owner = Budgets::new(crate::bounds::Bounds::default()).stranger(None);
    let (refused, mut refusals) = mpsc::unbounded_channel();
    let node = Paced::new(node, pace.clone());
    let service = service_fn(move |_: Request<Incoming>| {
        pace.found_no_room(&owner);
        refused.send(Instant::now()).unwrap();
        std::future::ready(Ok::<_, Infallible>(Response::new(Body::default())))
    });
    let http = http(UnreadAnswers::default());
    tokio::spawn(async move {
        // It goes on until the test ends.
        let _ = http.serve_connection(TokioIo::new(node), service).await;
    });
    let mut times = Vec::new();
    while times.len() < limits::CONNECTION_STREAMS_MAX as usize {
        times.push(refusals.recv().await.unwrap());
    }
    let until = |passed| {
        times
            .iter()
            .filter(|time| **time - times[0] < passed)
            .count()
    };
    let most = limits::LITTLE_READ_BYTES / call(1).len() + 1;
    let first = until(limits::REFUSALS_PAUSE);
    assert!(first <= most, "{first} calls were refused before any pause");
    let second = until(3 * limits::REFUSALS_PAUSE);
    assert!(
        first < second && second <= 2 * most + 1,
        "{second} after one pause"
    );
}
