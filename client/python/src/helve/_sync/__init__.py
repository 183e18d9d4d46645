"""The client for threads: made of `helve/_async/` by `tools/unasync.py`, but for its `io.py`."""
