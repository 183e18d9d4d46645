"""What the asyncio and the sync client share: no module here waits, reads or writes."""
