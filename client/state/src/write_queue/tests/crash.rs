//! What a crash, a cut file and a lapsed identity leave.

use std::{fs, path::Path};

use super::*;

/// Another agent writes after the crash: a write that is applied twice would undo that.
#[tokio::test]
async fn a_process_that_dies_at_any_step_of_a_drain_applies_no_write_twice() {
    for (fault, is_sent) in [
        (Fault::BeforeSession, false),
        (Fault::BeforeStore, false),
        (Fault::AfterStore, true),
    ] {
        let setting = Setting::new();
        let queue = setting.open().await;
        queue
            .store("k", &json!("mine"), Ttl::Default, Condition::Any)
            .await
            .unwrap();
        queue
            .store("next", &json!(1), Ttl::Default, Condition::Any)
            .await
            .unwrap();
        setting.die_draining(queue, fault).await;
        assert_eq!(setting.told(), [], "{fault:?}");
        setting
            .keys()
            .store("k", &json!("another's"))
            .await
            .unwrap();

        let queue = setting.open().await;
        assert_eq!(queue.waiting(), 2);
        let drained = queue.drain().await.unwrap();
        assert_eq!((drained.settled, drained.waiting), (2, 0), "{fault:?}");
        let expected = if is_sent { "another's" } else { "mine" };
        assert_eq!(
            setting.keys().retrieve("k").await.unwrap(),
            Some(json!(expected)),
            "{fault:?}"
        );
        let is_applied =
            |(_, verdict): &(String, Verdict)| matches!(verdict, Verdict::Applied { .. });
        assert!(
            setting.told().len() == 2 && setting.told().iter().all(is_applied),
            "{fault:?}"
        );
    }
}

/// At every byte at which the file can end, also those at which no crash of a process leaves it.
#[tokio::test]
async fn a_journal_that_is_cut_anywhere_loses_no_settled_write_and_doubles_none() {
    let setting = Setting::new();
    let queue = setting.open().await;
    queue
        .store("k", &json!("mine"), Ttl::Default, Condition::Revision(0))
        .await
        .unwrap();
    let queued = fs::metadata(setting.path()).unwrap().len();
    queue.drain().await.unwrap();
    drop(queue);
    let whole = fs::read(setting.path()).unwrap();
    setting
        .keys()
        .store("k", &json!("another's"))
        .await
        .unwrap();
    for end in 0..=whole.len() {
        fs::write(setting.path(), &whole[..end]).unwrap();
        setting.told.lock().unwrap().clear();
        let queue = setting.open().await;
        queue.drain().await.unwrap();
        assert_eq!(
            setting.keys().retrieve("k").await.unwrap(),
            Some(json!("another's")),
            "cut at {end}"
        );
        let told = setting.told();
        assert!(told.len() <= 1, "cut at {end}: {told:?}");
        if (end as u64) < queued {
            assert_eq!(told, [], "cut at {end}: it was never queued");
        }
    }
}

#[tokio::test]
async fn damage_before_the_last_entry_is_refused() {
    let setting = Setting::new();
    let queue = setting.open().await;
    let mut ends = Vec::new();
    for key in ["a", "b"] {
        queue
            .store(key, &json!(1), Ttl::Default, Condition::Any)
            .await
            .unwrap();
        let bytes = fs::metadata(setting.path()).unwrap().len();
        ends.push(usize::try_from(bytes).unwrap());
    }
    let client = setting.cluster.sound.clone();
    let open = |path: &Path| {
        let path = path.to_owned();
        let keys = client.keys(KeyOptions::shared());
        async move { WriteQueue::open(path, keys, QueueOptions::new(), |_| {}).await }
    };
    let taken = open(&setting.path()).await.unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::Unavailable, "{taken}");
    drop(queue);
    let whole = fs::read(setting.path()).unwrap();
    for at in 0..ends[0] {
        for bit in 0..8 {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << bit;
            fs::write(setting.path(), &bytes).unwrap();
            let damaged = open(&setting.path()).await.unwrap_err();
            assert_eq!(damaged.kind(), ErrorKind::Codec, "{at}: {damaged}");
        }
    }
    fs::write(setting.path(), b"something else").unwrap();
    let stranger = open(&setting.path()).await.unwrap_err();
    assert_eq!(stranger.kind(), ErrorKind::Codec, "{stranger}");
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_identity_has_lapsed_is_told_and_not_sent_again() {
    let setting = Setting::new();
    let queue = setting.open().await;
    queue
        .store("k", &json!("mine"), Ttl::Default, Condition::Any)
        .await
        .unwrap();
    queue
        .store("fresh", &json!(1), Ttl::Default, Condition::Any)
        .await
        .unwrap();
    setting.die_draining(queue, Fault::AfterStore).await;
    setting
        .keys()
        .store("k", &json!("another's"))
        .await
        .unwrap();
    tokio::time::advance(Duration::from_secs(2 * 3600)).await;
    setting.keys().store("clock", &json!(1)).await.unwrap();
    let queue = setting.open().await;
    let drained = queue.drain().await.unwrap();
    assert_eq!((drained.settled, drained.waiting), (2, 0));
    let told = setting.told();
    assert_eq!(told[0], ("k".to_owned(), Verdict::Lapsed));
    // What was never sent has no identity yet, and so none that could lapse.
    assert!(matches!(told[1].1, Verdict::Applied { .. }), "{told:?}");
    assert_eq!(
        setting.keys().retrieve("k").await.unwrap(),
        Some(json!("another's"))
    );
}
