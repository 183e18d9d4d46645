//! More callers than there is room for.

use futures::future::join_all;

use super::*;

#[tokio::test]
async fn half_heads_make_room_for_honest_callers() {
    for bounds in [
        Bounds::default().connections(4),
        Bounds {
            address_connections: 4,
            ..Bounds::default()
        },
    ] {
        let served = Served::within(bounds).await;
        let mut half = Vec::new();
        for _ in 0..40 {
            half.push(served.sent("GET /livez HTTP/1.1\r\nHost: ").await);
        }
        for _ in 0..8 {
            assert_eq!(status(&served.asked("/livez").await), "200");
        }
        let told = answer(half.swap_remove(0)).await;
        assert_eq!(status(&told), "503", "{told}");
        assert!(told.contains("retry-after: 1\r\n"), "{told}");
    }
}

#[tokio::test]
async fn idle_connections_make_room_after_half_heads() {
    let served = Served::within(Bounds {
        address_connections: 2,
        ..Bounds::default()
    });
    let served = served.await;
    let mut idle = served.sent(&next("/livez")).await;
    read_until(&mut idle, "alive\n").await;
    let half = served.sent("GET /livez HTTP/1.1\r\nHost: ").await;
    assert_eq!(status(&served.asked("/livez").await), "200");
    assert_eq!(status(&answer(half).await), "503");
    // It was spared.
    idle.write_all(next("/livez").as_bytes()).await.unwrap();
    read_until(&mut idle, "alive\n").await;
    let mut second = served.sent(&next("/livez")).await;
    read_until(&mut second, "alive\n").await;
    assert_eq!(status(&served.asked("/livez").await), "200");
    assert_eq!(
        answer(idle).await,
        "",
        "the one that has rested longest goes"
    );
}

#[tokio::test]
async fn requests_under_way_are_never_closed_for_others() {
    for (bounds, code) in [
        (
            Bounds {
                connections: 1,
                ..Bounds::default()
            },
            "503",
        ),
        (
            Bounds {
                address_connections: 1,
                ..Bounds::default()
            },
            "429",
        ),
    ] {
        let served = Served::within(bounds).await;
        let under_way = served.sent(&last("/wait")).await;
        served.begun.notified().await;
        let told = served.asked("/livez").await;
        assert_eq!(status(&told), code, "{told}");
        assert!(told.contains("retry-after: 1\r\n"), "{told}");
        served.release.notify_one();
        assert!(answer(under_way).await.ends_with("done"));
    }
}

#[tokio::test]
async fn unread_answers_make_room_for_honest_callers() {
    for bounds in [
        Bounds {
            connections: 2,
            ..Bounds::default()
        },
        Bounds {
            address_connections: 2,
            ..Bounds::default()
        },
    ] {
        let served = Served::within(bounds).await;
        let mut unread = Vec::new();
        for _ in 0..2 {
            let mut caller = served.sent(&last("/large")).await;
            timeout(PATIENCE, caller.read_u8()).await.unwrap().unwrap();
            unread.push(caller);
        }
        until_answered(&served, "/livez").await;
        let lengths = join_all(
            unread
                .iter_mut()
                .map(async |caller| rest(caller).await.len()),
        );
        let whole = lengths.await.into_iter().map(|length| length > LARGE);
        let whole = whole.filter(|is_whole| *is_whole).count();
        assert_eq!(whole, 1, "one gave its place, the other kept it");
    }
}

#[tokio::test]
async fn stalled_bodies_make_room_for_honest_ones() {
    for bounds in [
        Bounds {
            request_bytes: 10_000,
            ..Bounds::default()
        },
        Bounds {
            address_request_bytes: 10_000,
            ..Bounds::default()
        },
    ] {
        let served = Served::within(bounds).await;
        let mut stalled = Vec::new();
        for _ in 0..30 {
            stalled.push(served.sent(&body(1_000, 900)).await);
        }
        let told = answer(stalled.swap_remove(0)).await;
        assert_eq!(status(&told), "503", "{told}");
        assert!(told.contains("x-page: named\r\n"), "{told}");
        let mut honest = served.sent(&body(9_000, 9_000)).await;
        assert_eq!(status(&read_until(&mut honest, "9000").await), "200");
    }
}

#[tokio::test]
async fn body_over_the_share_of_its_address_is_answered_429() {
    let served = Served::within(Bounds {
        address_request_bytes: 1_000,
        ..Bounds::default()
    });
    let served = served.await;
    let told = answer(served.sent(&body(2_000, 2_000)).await).await;
    assert_eq!(status(&told), "429", "{told}");
}

/// Asks until a page comes: a connection is seen to be stalled only when the kernel takes no more of its answer.
async fn until_answered(served: &Served, page: &str) {
    let answered = async {
        while status(&served.asked(page).await) != "200" {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, answered).await.unwrap();
}
