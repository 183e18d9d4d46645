//! Callers who send slowly, send too much, or read nothing.

use super::*;
use crate::Progress;

const SHORT: Duration = Duration::from_millis(300);

#[tokio::test]
async fn slow_heads_are_answered_408_and_others_are_served() {
    let served = Served::within(Bounds {
        head_time: SHORT,
        ..Bounds::default()
    });
    let served = served.await;
    let slow = served.sent("GET /livez HTTP/1.1\r\nHost: ").await;
    let silent = served.sent("").await;
    assert_eq!(status(&served.asked("/livez").await), "200");
    for stream in [slow, silent] {
        let told = answer(stream).await;
        assert_eq!(status(&told), "408", "{told}");
        assert!(told.contains("retry-after: 1\r\n"), "{told}");
    }
    served.stopped().await;
}

#[tokio::test]
async fn half_a_second_head_ends_the_connection() {
    let served = Served::within(Bounds {
        head_time: SHORT,
        ..Bounds::default()
    });
    let served = served.await;
    let mut stream = served.sent(&next("/livez")).await;
    read_until(&mut stream, "alive\n").await;
    stream.write_all(b"GET /livez").await.unwrap();
    assert_eq!(status(&answer(stream).await), "408");
}

#[tokio::test]
async fn connections_without_a_request_are_not_kept_for_ever() {
    let served = Served::within(Bounds {
        idle_time: SHORT,
        ..Bounds::default()
    });
    let served = served.await;
    let mut stream = served.sent(&next("/livez")).await;
    read_until(&mut stream, "alive\n").await;
    assert_eq!(answer(stream).await, "");
}

#[tokio::test]
async fn large_heads_are_answered_431() {
    let served = Served::within(Bounds {
        head_bytes: 8_192,
        ..Bounds::default()
    });
    let served = served.await;
    let head = format!(
        "GET /livez HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n",
        "x".repeat(9_000)
    );
    assert_eq!(status(&answer(served.sent(&head).await).await), "431");
    // A caller that is still sending is not reset before it has read that.
    let longer = head.replace('x', &"x".repeat(8));
    assert_eq!(status(&answer(served.sent(&longer).await).await), "431");
}

#[tokio::test]
async fn slow_bodies_are_answered_408_with_the_headers_of_the_page() {
    let least = |bytes, within| Progress { bytes, within };
    let bounds = Bounds::default();
    for bounds in [
        Bounds {
            body_time: SHORT,
            ..bounds
        },
        Bounds {
            body_progress: least(100, SHORT),
            ..bounds
        },
    ] {
        let served = Served::within(bounds).await;
        for sent in [0, 50] {
            let told = answer(served.sent(&body(1_000, sent)).await).await;
            assert_eq!(status(&told), "408", "{told}");
            assert!(told.contains("x-page: named\r\n"), "{told}");
            assert!(told.contains("connection: close\r\n"), "{told}");
        }
        let whole = answer(
            served
                .sent(&body(1_000, 1_000).replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n"))
                .await,
        );
        assert!(whole.await.ends_with("\r\n\r\n1000"));
    }
}

#[tokio::test]
async fn large_bodies_are_answered_413_read_or_not() {
    let served = Served::within(Bounds {
        body_bytes: 1_000,
        ..Bounds::default()
    });
    let served = served.await;
    let chunked = "POST /size HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let chunk = format!("{chunked}7d0\r\n{}\r\n0\r\n\r\n", "x".repeat(2_000));
    for request in [body(1_001, 0), body(1_001, 1_001), chunk] {
        let told = answer(served.sent(&request).await).await;
        assert_eq!(status(&told), "413", "{told}");
        assert!(told.contains("x-page: named\r\n"), "{told}");
        assert!(!told.contains("retry-after"), "{told}");
    }
}

#[tokio::test]
async fn odd_heads_and_chunks_are_refused_and_others_are_served() {
    let served = Served::within(Bounds::default()).await;
    let fields: String = (0..200).map(|at| format!("X{at}: 1\r\n")).collect();
    let many = format!("GET /livez HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
    let chunked = "POST /size HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let extended = format!("{chunked}1;{}", "x".repeat(64 << 10));
    let wrong = format!("{chunked}no size\r\n");
    for (request, expected) in [(many, "431"), (extended, "400"), (wrong, "400")] {
        let told = answer(served.sent(&request).await).await;
        let shown = &request[..request.len().min(100)];
        assert_eq!(status(&told), expected, "{shown}: {told}");
    }
    // What speaks HTTP/2 at once is not kept waiting.
    let http2 = served.sent("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
    assert_ne!(status(&answer(http2).await), "200");
    assert_eq!(status(&served.asked("/livez").await), "200");
    served.stopped().await;
}

#[tokio::test]
async fn caller_that_asks_first_is_told_to_send_only_what_is_taken() {
    let served = Served::within(Bounds {
        body_bytes: 1_000,
        ..Bounds::default()
    });
    let served = served.await;
    let asks = |bytes| body(bytes, 0).replace("\r\n\r\n", "\r\nExpect: 100-continue\r\n\r\n");
    let mut stream = served.sent(&asks(3)).await;
    read_until(&mut stream, "100 Continue\r\n\r\n").await;
    stream.write_all(b"abc").await.unwrap();
    let told = read_until(&mut stream, "\r\n\r\n3").await;
    assert_eq!(status(&told), "200", "{told}");
    let told = answer(served.sent(&asks(1_001)).await).await;
    assert_eq!(status(&told), "413", "{told}");
}

#[tokio::test]
async fn answers_left_unread_end_the_connection() {
    let served = Served::within(Bounds {
        answer_progress: Progress {
            bytes: 1,
            within: SHORT,
        },
        ..Bounds::default()
    });
    let served = served.await;
    let mut unread = served.sent(&last("/large")).await;
    // Other callers are served meanwhile, and a caller that reads gets all.
    assert!(served.asked("/large").await.len() > LARGE);
    served.shutdown.begin();
    // The listener ends although no caller has read a byte.
    timeout(PATIENCE, served.serving)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    assert!(rest(&mut unread).await.len() < LARGE);
}

#[tokio::test]
async fn oldest_unread_answer_makes_room_for_the_next() {
    let served = Served::within(Bounds {
        answer_bytes: LARGE + LARGE / 2,
        address_answer_bytes: LARGE + LARGE / 2,
        ..Bounds::default()
    });
    let served = served.await;
    let mut oldest = served.sent(&last("/large")).await;
    // It has begun to come, so it holds its room.
    oldest.readable().await.unwrap();
    let newest = served.sent(&last("/large")).await;
    assert!(answer(newest).await.len() > LARGE);
    assert!(rest(&mut oldest).await.len() < LARGE);
}
