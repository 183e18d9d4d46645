//! Tries for which little time is left.

use std::sync::atomic::AtomicUsize;

use super::*;

/// How often a call is tried whose answers ask for a pause of a second, if this much time is left then.
async fn tried(effect: Effect, left: Duration) -> usize {
    let second = Duration::from_secs(1);
    let pool = Pool::new(&["a:1".to_owned()], Hints::Known, Dial::plain(second)).unwrap();
    let (_open, closed) = watch::channel(false);
    let tries = Tries::new(&pool, effect, Instant::now() + second + left, PACE, closed);
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let answer = tries.run(move |_, _| {
        counted.fetch_add(1, Ordering::Relaxed);
        let refused = verdict_of(&json!({"http": 503, "retry_after_s": 1}));
        async move { Err::<(), _>(refused) }.boxed()
    });
    let error = answer.await.map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    count.load(Ordering::Relaxed)
}

#[tokio::test(start_paused = true)]
async fn write_that_was_refused_is_not_sent_too_late_for_an_answer() {
    let (late, early) = (limits::TRY_LEAST / 2, limits::TRY_LEAST * 2);
    assert_eq!(tried(Effect::Lasting, late).await, 1);
    assert_eq!(tried(Effect::Lasting, early).await, 2);
    // A read that is cut off leaves nothing in doubt.
    assert_eq!(tried(Effect::Harmless, late).await, 2);
}
