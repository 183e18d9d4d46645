//! Stopping while requests are under way.

use super::*;

#[tokio::test]
async fn request_under_way_is_answered_before_anything_is_broken_off() {
    let served = Served::within(Bounds::default()).await;
    let under_way = served.sent(&next("/wait")).await;
    served.begun.notified().await;
    served.shutdown.begin();
    while TcpStream::connect(served.address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    assert!(!served.shutdown.ended().is_cancelled());
    served.release.notify_one();
    let told = answer(under_way).await;
    assert_eq!(status(&told), "200");
    assert!(told.ends_with("done"), "{told}");
    assert!(told.contains("connection: close\r\n"), "{told}");
    served.stopped().await;
}

#[tokio::test]
async fn connections_without_a_request_are_served_once_more() {
    let drain = Drain {
        linger: PATIENCE,
        ..Drain::default()
    };
    let served = Served::stopping(Bounds::default(), drain).await;
    let mut idle = served.sent(&next("/livez")).await;
    read_until(&mut idle, "alive\n").await;
    served.shutdown.begin();
    while TcpStream::connect(served.address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    idle.write_all(next("/livez").as_bytes()).await.unwrap();
    let told = answer(idle).await;
    assert!(
        told.contains("connection: close\r\n") && told.ends_with("alive\n"),
        "{told}"
    );
    served.stopped().await;
}

#[tokio::test]
async fn callers_are_accepted_until_the_delay_is_over() {
    let drain = Drain {
        delay: Duration::from_millis(500),
        ..Drain::default()
    };
    let served = Served::stopping(Bounds::default(), drain).await;
    served.shutdown.begin();
    let told = served.asked("/livez").await;
    assert_eq!(status(&told), "200", "{told}");
    served.stopped().await;
}

#[tokio::test]
async fn callers_that_come_one_by_one_find_the_delay_not_over() {
    let drain = Drain {
        delay: PATIENCE,
        ..Drain::default()
    };
    let served = Served::stopping(Bounds::default(), drain).await;
    served.shutdown.begin();
    // The operating system may have taken the first connection, whether or not it is accepted here.
    for _ in 0..2 {
        let told = served.asked("/livez").await;
        assert_eq!(status(&told), "200", "{told}");
    }
    assert!(!served.serving.is_finished());
}

#[tokio::test]
async fn endless_answers_hold_up_no_stop_and_end_after_calls() {
    let served = Served::within(Bounds::default()).await;
    let mut listening = served.sent(&next("/listen")).await;
    read_until(&mut listening, "event\n\r\n").await;
    let under_way = served.sent(&next("/wait")).await;
    served.begun.notified().await;
    served.shutdown.begin();
    served.release.notify_one();
    assert!(answer(under_way).await.ends_with("done"));
    assert!(answer(listening).await.contains("end\n"));
    served.stopped().await;
}

#[tokio::test]
async fn requests_that_take_too_long_are_broken_off() {
    let drain = Drain {
        timeout: Duration::from_millis(100),
        ..Drain::default()
    };
    let served = Served::stopping(Bounds::default(), drain).await;
    let stuck = served.sent(&next("/wait")).await;
    served.begun.notified().await;
    served.shutdown.begin();
    assert!(answer(stuck).await.ends_with("broken off"));
    served.stopped().await;
}
