"""The asyncio client. `helve/_sync/` is made of this by `tools/unasync.py`, but for its `io.py`."""
