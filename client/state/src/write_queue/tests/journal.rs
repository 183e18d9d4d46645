//! The file that a queue lies in.

use super::*;

#[tokio::test]
async fn the_journal_does_not_grow_with_what_is_done_with() {
    let setting = Setting::new();
    let queue = setting.open().await;
    let value = json!("v".repeat(20_000));
    let mut largest = 0;
    for round in 0..12 {
        queue
            .store("k", &value, Ttl::Default, Condition::Any)
            .await
            .unwrap();
        assert_eq!(queue.drain().await.unwrap().settled, 1, "{round}");
        largest = largest.max(fs::metadata(setting.path()).unwrap().len());
    }
    assert!(largest < 4 * 20_000 + JOURNAL_SLACK_BYTES, "{largest}");
}

#[tokio::test]
async fn queues_whose_names_differ_in_their_endings_are_two() {
    let setting = Setting::new();
    let open = |ending| {
        let path = setting.path().with_extension(ending);
        WriteQueue::open(path, setting.keys(), QueueOptions::new(), |_| {})
    };
    let _one = open("one").await.unwrap();
    let _two = open("two").await.unwrap();
}

#[tokio::test]
async fn journal_that_cannot_be_rewritten_serves_on() {
    let setting = Setting::new();
    let queue = setting.open().await;
    fs::create_dir(setting.directory.path().join("writes.draft")).unwrap();
    let value = json!("v".repeat(20_000));
    for round in 0..12 {
        queue
            .store("k", &value, Ttl::Default, Condition::Any)
            .await
            .unwrap();
        assert_eq!(queue.drain().await.unwrap().settled, 1, "{round}");
    }
    drop(queue);
    let again = setting.open().await;
    assert_eq!(again.waiting(), 0);
}
