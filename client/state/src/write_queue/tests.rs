//! What a crash at each step leaves, and what is never sent twice.

use std::{
    fs,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use async_trait::async_trait;
use helve_client::{Backend, Client, KeyOptions, MemoryBuilder, StoreOutcome};
use helve_proto::v1::{
    ListKeysReply, ListKeysRequest, ListReply, ListRequest, exchange_answer::Answer,
    exchange_call::Call,
};
use serde_json::json;

use super::*;

mod crash;
mod journal;

/// A cluster that answers, dies with the call unsent, or dies with the answer on its way. To die is to never answer: the test then
/// drops the queue.
#[derive(Debug)]
struct Faulty {
    sound: Client,
    inner: Arc<dyn Backend>,
    fault: Mutex<Fault>,
    stores: AtomicU64,
    died: Notify,
}

impl Faulty {
    async fn die(&self) {
        self.died.notify_one();
        std::future::pending::<()>().await;
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    BeforeSession,
    BeforeStore,
    AfterStore,
    Unavailable,
}

#[async_trait]
impl Backend for Faulty {
    async fn call(&self, call: Call, deadline: Duration) -> Result<Answer, Error> {
        let fault = *self.fault.lock().unwrap();
        let is_store = matches!(call, Call::Store(_) | Call::DeleteKey(_));
        let is_session = matches!(call, Call::OpenSession(_));
        if is_store && fault == Fault::Unavailable {
            return Err(Error::new(ErrorKind::Unavailable, "no majority"));
        }
        if (is_store && fault == Fault::BeforeStore)
            || (is_session && fault == Fault::BeforeSession)
        {
            self.die().await;
        }
        if is_store {
            self.stores.fetch_add(1, Ordering::Relaxed);
        }
        let answer = self.inner.call(call, deadline).await;
        if is_store && fault == Fault::AfterStore {
            self.die().await;
        }
        answer
    }

    async fn list_handles(
        &self,
        request: ListRequest,
        deadline: Duration,
    ) -> Result<Vec<ListReply>, Error> {
        self.inner.list_handles(request, deadline).await
    }

    async fn list_keys(
        &self,
        request: ListKeysRequest,
        deadline: Duration,
    ) -> Result<Vec<ListKeysReply>, Error> {
        self.inner.list_keys(request, deadline).await
    }

    fn deadline(&self) -> Duration {
        self.inner.deadline()
    }

    fn close(&self) {
        self.inner.close();
    }
}

struct Setting {
    directory: tempfile::TempDir,
    cluster: Arc<Faulty>,
    told: Arc<Mutex<Vec<(String, Verdict)>>>,
}

impl Setting {
    fn new() -> Self {
        let sound = MemoryBuilder::new().build().unwrap();
        let cluster = Faulty {
            inner: sound.backend(),
            sound,
            fault: Mutex::new(Fault::None),
            stores: AtomicU64::new(0),
            died: Notify::new(),
        };
        Self {
            directory: tempfile::tempdir().unwrap(),
            cluster: Arc::new(cluster),
            told: Arc::default(),
        }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("writes")
    }

    async fn open(&self) -> WriteQueue {
        let told = Arc::clone(&self.told);
        let client = Client::new(Arc::clone(&self.cluster) as Arc<dyn Backend>);
        let report = move |report: &Report| {
            told.lock()
                .unwrap()
                .push((report.key.clone(), report.verdict.clone()));
        };
        let keys = client.keys(KeyOptions::shared());
        WriteQueue::open(self.path(), keys, QueueOptions::new(), report)
            .await
            .unwrap()
    }

    fn keys(&self) -> Keys {
        self.cluster.sound.keys(KeyOptions::shared())
    }

    fn set(&self, fault: Fault) {
        *self.cluster.fault.lock().unwrap() = fault;
    }

    fn told(&self) -> Vec<(String, Verdict)> {
        self.told.lock().unwrap().clone()
    }

    /// Drains until the fault holds the drain, then drops it with the queue, as a killed process would.
    async fn die_draining(&self, queue: WriteQueue, fault: Fault) {
        self.set(fault);
        tokio::select! {
            drained = queue.drain() => panic!("{drained:?}"),
            () = self.cluster.died.notified() => {}
        }
        drop(queue);
        self.set(Fault::None);
    }
}

#[tokio::test]
async fn what_is_queued_is_sent_in_order_and_once() {
    let setting = Setting::new();
    let queue = setting.open().await;
    assert_eq!(
        queue
            .store("a", &json!(1), Ttl::Default, Condition::Any)
            .await
            .unwrap(),
        1
    );
    assert_eq!(
        queue
            .store("a", &json!(2), Ttl::Default, Condition::AfterQueued)
            .await
            .unwrap(),
        2
    );
    queue.delete("a", Condition::AfterQueued).await.unwrap();
    queue
        .store("a", &json!(3), Ttl::Default, Condition::AfterQueued)
        .await
        .unwrap();
    assert_eq!((queue.waiting(), setting.told().len()), (4, 0));
    let drained = queue.drain().await.unwrap();
    assert_eq!((drained.settled, drained.waiting), (4, 0));
    assert!(drained.stopped.is_none());
    let told = setting.told();
    let is_applied = |(_, verdict): &(String, Verdict)| matches!(verdict, Verdict::Applied { .. });
    assert!(told.len() == 4 && told.iter().all(is_applied), "{told:?}");
    let record = setting.keys().retrieve_record("a").await.unwrap().unwrap();
    assert_eq!(record.value, json!(3));
    assert_eq!(
        told[3].1,
        Verdict::Applied {
            revision: record.revision()
        }
    );
    assert_eq!(queue.drain().await.unwrap().settled, 0);
    assert_eq!(setting.cluster.stores.load(Ordering::Relaxed), 4);
}

#[tokio::test]
async fn a_conflict_is_told_and_not_sent_again_and_neither_is_what_follows_it() {
    let setting = Setting::new();
    let queue = setting.open().await;
    let info = setting
        .keys()
        .store_record("k", &json!("theirs"), Ttl::Default)
        .await
        .unwrap();
    queue
        .store("k", &json!(1), Ttl::Default, Condition::Revision(0))
        .await
        .unwrap();
    queue
        .store("k", &json!(2), Ttl::Default, Condition::AfterQueued)
        .await
        .unwrap();
    queue
        .store("other", &json!(3), Ttl::Default, Condition::Any)
        .await
        .unwrap();
    let drained = queue.drain().await.unwrap();
    assert_eq!((drained.settled, drained.waiting), (3, 0));
    let told = setting.told();
    assert_eq!(
        told[0].1,
        Verdict::Conflict {
            revision: info.revision
        }
    );
    assert!(matches!(&told[1].1, Verdict::Refused { message } if message.contains("before it")));
    assert!(matches!(told[2].1, Verdict::Applied { .. }));
    assert_eq!(
        setting.keys().retrieve("k").await.unwrap(),
        Some(json!("theirs"))
    );
    drop(queue);
    let queue = setting.open().await;
    assert_eq!(queue.drain().await.unwrap().settled, 0);
    assert_eq!(setting.told().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn what_certainly_was_not_sent_waits_for_as_long_as_the_partition_lasts() {
    let setting = Setting::new();
    let queue = setting.open().await;
    queue
        .store("k", &json!(1), Ttl::Default, Condition::Any)
        .await
        .unwrap();
    setting.set(Fault::Unavailable);
    let drained = queue.drain().await.unwrap();
    assert_eq!((drained.settled, drained.waiting), (0, 1));
    assert_eq!(drained.stopped.unwrap().kind(), ErrorKind::Unavailable);
    tokio::time::advance(Duration::from_secs(24 * 3600)).await;
    setting.keys().store("clock", &json!(1)).await.unwrap();
    setting.set(Fault::None);
    assert_eq!(queue.drain().await.unwrap().settled, 1);
    assert!(matches!(setting.told()[0].1, Verdict::Applied { .. }));
}

#[tokio::test]
async fn a_write_is_queued_only_while_the_cluster_does_not_serve() {
    let setting = Setting::new();
    let queue = Arc::new(setting.open().await);
    let save = |state, key: &'static str, condition| {
        let queue = Arc::clone(&queue);
        async move {
            queue
                .store_or_queue(state, key, &json!(key), Ttl::Default, condition)
                .await
                .unwrap()
        }
    };
    let stored = save(PartitionState::Healthy, "a", Condition::Revision(0)).await;
    assert!(
        matches!(stored, Queued::Stored(StoreOutcome::Created(_))),
        "{stored:?}"
    );
    let stored = save(PartitionState::Healthy, "new", Condition::Any).await;
    assert!(
        matches!(stored, Queued::Stored(StoreOutcome::Created(_))),
        "{stored:?}"
    );
    let conflict = save(PartitionState::Majority, "a", Condition::Revision(0)).await;
    assert!(
        matches!(conflict, Queued::Stored(StoreOutcome::Conflict { .. })),
        "{conflict:?}"
    );
    assert_eq!(
        save(PartitionState::Minority, "b", Condition::Any).await,
        Queued::Waiting(1)
    );
    assert_eq!(
        save(PartitionState::Isolated, "c", Condition::Any).await,
        Queued::Waiting(2)
    );
    // A later write must not overtake.
    assert_eq!(
        save(PartitionState::Healthy, "b", Condition::Any).await,
        Queued::Waiting(3)
    );
    let (sender, watch) = watch_of(PartitionState::Minority);
    let running = tokio::spawn({
        let queue = Arc::clone(&queue);
        async move { queue.run(watch).await }
    });
    tokio::task::yield_now().await;
    assert_eq!(queue.waiting(), 3);
    sender.send_replace(PartitionState::Majority);
    while queue.waiting() > 0 || setting.told().len() < 3 {
        tokio::task::yield_now().await;
    }
    setting.set(Fault::Unavailable);
    assert_eq!(
        save(PartitionState::Healthy, "d", Condition::Any).await,
        Queued::Waiting(4)
    );
    setting.set(Fault::None);
    while queue.waiting() > 0 {
        tokio::task::yield_now().await;
    }
    drop(sender);
    running.await.unwrap().unwrap();
    assert_eq!(
        setting.keys().list("").await.unwrap(),
        ["a", "b", "c", "d", "new"]
    );
}

fn watch_of(
    state: PartitionState,
) -> (
    tokio::sync::watch::Sender<PartitionState>,
    tokio::sync::watch::Receiver<PartitionState>,
) {
    tokio::sync::watch::channel(state)
}

#[tokio::test]
async fn what_no_cluster_takes_and_what_has_no_room_is_not_queued() {
    let setting = Setting::new();
    let keys = setting.keys();
    let options = QueueOptions::new().writes_max(2).bytes_max(1000);
    let queue = WriteQueue::open(setting.path(), keys, options, |_| {})
        .await
        .unwrap();
    for key in ["", "a\0", &"k".repeat(1025)] {
        let refused = queue
            .store(key, &json!(1), Ttl::Default, Condition::Any)
            .await
            .unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid);
    }
    let large = json!("v".repeat(1 << 20));
    let refused = queue
        .store("k", &large, Ttl::Default, Condition::Any)
        .await
        .unwrap_err();
    assert_eq!(refused.reason(), Some(Reason::TooLarge));
    let orphan = queue.delete("k", Condition::AfterQueued).await.unwrap_err();
    assert_eq!(orphan.kind(), ErrorKind::Invalid);
    let wide = json!("v".repeat(1000));
    let full = queue
        .store("k", &wide, Ttl::Default, Condition::Any)
        .await
        .unwrap_err();
    assert_eq!(full.kind(), ErrorKind::Full);
    for key in ["a", "b"] {
        queue
            .store(key, &json!(1), Ttl::Default, Condition::Any)
            .await
            .unwrap();
    }
    let full = queue
        .store("c", &json!(1), Ttl::Default, Condition::Any)
        .await
        .unwrap_err();
    assert_eq!(full.kind(), ErrorKind::Full);
    assert_eq!(queue.drain().await.unwrap().settled, 2);
    queue
        .store("c", &json!(1), Ttl::Default, Condition::Any)
        .await
        .unwrap();
}
