//! A bug to plant in this process, so that a test can show that it would notice. Only in builds with the feature `planted`.

use std::sync::atomic::{AtomicBool, Ordering};

#[cfg(not(debug_assertions))]
compile_error!(
    "the feature `planted` breaks promises on purpose: it must not stand in a release build"
);

static NO_CORS: AtomicBool = AtomicBool::new(false);

/// From now on, routers that are made tell browsers nothing: without CORS no page can read an answer.
pub fn choose_no_cors() {
    NO_CORS.store(true, Ordering::Relaxed);
}

/// Whether that bug is planted.
pub(crate) fn is_no_cors() -> bool {
    NO_CORS.load(Ordering::Relaxed)
}
