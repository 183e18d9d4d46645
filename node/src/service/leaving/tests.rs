//! Callers that take their answers, slowly or never, as the transport has them: a piece is asked for when there is room for one.

use std::time::Duration;

use futures::{StreamExt as _, future::join_all, stream};
use tokio::{
    sync::Semaphore,
    task::JoinHandle,
    time::{self, advance},
};

use super::*;
use crate::{
    bounds::{Bounds, OwnerKind, What},
    service::budget::Budgets,
};

/// A stream whose caller takes as many pieces as it is given permits for.
struct Stream {
    takes: Arc<Semaphore>,
    task: JoinHandle<()>,
    whole: Arc<AtomicBool>,
}

impl Stream {
    fn start(unread: &UnreadAnswers, body: impl FnOnce() -> Body + Send + 'static) -> Self {
        let takes = Arc::new(Semaphore::new(0));
        let whole = Arc::<AtomicBool>::default();
        let (permits, done) = (Arc::clone(&takes), Arc::clone(&whole));
        let task = tokio::spawn(unread.clone().send(async move {
            let mut leaving = Leaving::of(body(), None);
            while let Some(piece) =
                poll_fn(|context| Pin::new(&mut leaving).poll_frame(context)).await
            {
                let piece = piece.unwrap().into_data().unwrap();
                assert!(piece.len() <= ANSWER_PIECE_BYTES);
                permits.acquire().await.unwrap().forget();
            }
            done.store(true, Ordering::Relaxed);
        }));
        Self { takes, task, whole }
    }

    fn of_bytes(unread: &UnreadAnswers, bytes: usize) -> Self {
        Self::start(unread, move || {
            Body::new(axum::body::Body::from(vec![7; bytes]))
        })
    }

    /// Whether its caller has had all of it.
    async fn ends(self) -> bool {
        self.task.await.unwrap();
        self.whole.load(Ordering::Relaxed)
    }
}

fn waiting(unread: &UnreadAnswers) -> (usize, usize) {
    let waiting = lock(&unread.waiting);
    (waiting.answers.len(), waiting.bytes)
}

#[tokio::test(start_paused = true)]
async fn answer_left_unread_is_given_up_and_one_read_slowly_is_not() {
    let unread = UnreadAnswers::default();
    let (pieces, began) = (4, time::Instant::now());
    let bytes = pieces * ANSWER_PIECE_BYTES;
    let idle = Stream::of_bytes(&unread, bytes);
    let slow = Stream::of_bytes(&unread, bytes);
    let takes = Arc::clone(&slow.takes);
    let taking = tokio::spawn(async move {
        for _ in 0..pieces {
            sleep(ANSWER_STALL_MAX - Duration::from_millis(1)).await;
            takes.add_permits(1);
        }
    });
    assert!(!idle.ends().await);
    assert_eq!(began.elapsed().as_secs(), ANSWER_STALL_MAX.as_secs());
    assert!(slow.ends().await);
    taking.await.unwrap();
    assert_eq!(waiting(&unread), (0, 0));
    assert_eq!((unread.fullness().used, unread.fullness().refused), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn answer_that_has_waited_longest_makes_room() {
    let unread = UnreadAnswers::default();
    let bytes = ANSWERS_WAITING_BYTES_MAX / 4;
    let mut streams = Vec::new();
    for _ in 0..4 {
        streams.push(Stream::of_bytes(&unread, bytes));
        advance(Duration::from_millis(1)).await;
    }
    assert_eq!(waiting(&unread), (4, ANSWERS_WAITING_BYTES_MAX));
    // The first takes a piece, and its wait begins again: then the second has waited longest.
    streams[0].takes.add_permits(1);
    advance(Duration::from_millis(1)).await;
    streams.push(Stream::of_bytes(&unread, bytes));
    assert!(!streams.remove(1).ends().await);
    for stream in &streams {
        stream.takes.add_permits(bytes);
    }
    let whole = join_all(streams.into_iter().map(Stream::ends)).await;
    assert_eq!(whole, [true; 4]);
    assert_eq!(waiting(&unread), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_waits_for_the_node_is_waited_for() {
    let unread = UnreadAnswers::default();
    let open = Stream::start(&unread, || {
        let message = Ok::<_, axum::Error>(Bytes::from_static(b"message"));
        let pieces = stream::iter([message]).chain(stream::pending());
        Body::new(axum::body::Body::from_stream(pieces))
    });
    open.takes.add_permits(1);
    assert!(
        time::timeout(100 * ANSWER_STALL_MAX, open.task)
            .await
            .is_err()
    );
    assert_eq!(waiting(&unread), (0, 0));
}

#[tokio::test]
async fn an_answer_that_is_taken_at_once_waits_nowhere() {
    let unread = UnreadAnswers::default();
    let small = Stream::of_bytes(&unread, 100);
    small.takes.add_permits(1);
    assert!(small.ends().await);
    assert_eq!(lock(&unread.waiting).next, 0);
}

/// An account of a caller at this address, in these budgets.
fn account(budgets: &Budgets, last: u8) -> Arc<Account> {
    let owner = budgets.stranger(Some([127, 0, 0, last].into()));
    Account::open(budgets.clone(), owner, &[What::Streams]).unwrap()
}

fn body_of(bytes: usize) -> Body {
    Body::new(axum::body::Body::from(vec![7; bytes]))
}

/// The next piece of an answer, and whether there was one without waiting.
async fn piece(leaving: &mut Leaving) -> Option<Bytes> {
    let frame = poll_fn(|context| Poll::Ready(Pin::new(&mut *leaving).poll_frame(context)));
    match frame.await {
        Poll::Ready(Some(frame)) => frame.unwrap().into_data().ok(),
        Poll::Ready(None) => Some(Bytes::new()),
        Poll::Pending => None,
    }
}

#[tokio::test]
async fn charges_and_place_are_kept_while_the_transport_holds_a_piece() {
    let budgets = Budgets::new(Bounds::default());
    let used = |what| budgets.used(OwnerKind::Strangers, what);
    let account = account(&budgets, 1);
    account.keep_answer(account.take(What::AnswerBytes, 100).unwrap());
    let mut leaving = Leaving::of(body_of(100), Some(account));
    let held = piece(&mut leaving).await.unwrap();
    assert_eq!(piece(&mut leaving).await.unwrap(), Bytes::new());
    drop(leaving);
    assert_eq!((used(What::AnswerBytes), used(What::Streams)), (100, 1));
    drop(held);
    assert_eq!((used(What::AnswerBytes), used(What::Streams)), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_stream_waits_for_its_piece_once_many_are_held() {
    let unread = UnreadAnswers::default();
    let began = time::Instant::now();
    let stream = |pieces: Arc<Mutex<Vec<Bytes>>>| {
        unread.clone().send(async move {
            let mut leaving = Leaving::of(body_of(100), None);
            let frame = poll_fn(|context| Pin::new(&mut leaving).poll_frame(context)).await;
            let held = frame.unwrap().unwrap().into_data().unwrap();
            pieces.lock().unwrap().push(held);
            let end = poll_fn(|context| Pin::new(&mut leaving).poll_frame(context)).await;
            assert!(end.is_none());
        })
    };
    let held = Arc::<Mutex<Vec<Bytes>>>::default();
    for _ in 0..PIECES_UNTIMED_MAX {
        stream(Arc::clone(&held)).await;
    }
    // Its piece stays: it is given up.
    stream(Arc::clone(&held)).await;
    assert_eq!(began.elapsed(), ANSWER_STALL_MAX);
    assert_eq!(unread.fullness().refused, 1);
    // Its piece leaves: it ends at once.
    let last = Arc::<Mutex<Vec<Bytes>>>::default();
    let sending = tokio::spawn(stream(Arc::clone(&last)));
    advance(Duration::from_millis(1)).await;
    assert!(!sending.is_finished());
    last.lock().unwrap().clear();
    sending.await.unwrap();
    assert_eq!(unread.fullness().refused, 1);
    held.lock().unwrap().clear();
    assert_eq!(unread.handed.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn the_owner_with_most_waiting_makes_room() {
    let unread = UnreadAnswers::default();
    let bytes = ANSWERS_WAITING_BYTES_MAX / 4;
    let budgets = Budgets::new(Bounds::default());
    let start = |last: u8, bytes: usize| {
        let account = account(&budgets, last);
        let unread = unread.clone();
        tokio::spawn(unread.send(async move {
            let mut leaving = Leaving::of(body_of(bytes), Some(account));
            let _first = poll_fn(|context| Pin::new(&mut leaving).poll_frame(context)).await;
            std::future::pending::<()>().await;
        }))
    };
    // The honest one came first, and has least.
    let honest = start(1, bytes / 2);
    advance(Duration::from_millis(1)).await;
    let greedy: Vec<_> = (0..4).map(|_| start(2, bytes)).collect();
    advance(Duration::from_millis(1)).await;
    assert!(!honest.is_finished());
    assert_eq!(
        greedy
            .iter()
            .filter(|sending| sending.is_finished())
            .count(),
        1
    );
    assert!(greedy[0].is_finished());
}
