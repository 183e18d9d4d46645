//! How the process takes memory from the kernel.

/// Takes pages of ordinary size. The allocator asks for huge ones: a node that does little of everything in every thread touches many of
/// them, of which it needs a small part, and commands wait while the kernel clears two megabytes for one of them.
pub(crate) fn take_small_pages() {
    if let Err(error) = rustix::thread::disable_transparent_huge_pages(true) {
        tracing::debug!(%error, "memory may come in huge pages: more of it, and slower");
    }
}
