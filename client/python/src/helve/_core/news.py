"""What one task of an event loop tells others of the same process, who look by themselves, too."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class News:
    """Ends the pauses of those who look for something under a name again and again."""

    def __init__(self) -> None:
        self._looking: dict[str, set[asyncio.Event]] = {}

    def tell(self, name: str) -> None:
        """Has all who look for this name look now."""
        for news in self._looking.get(name, ()):
            news.set()

    @contextmanager
    def looking(self, name: str) -> Iterator[asyncio.Event]:
        """Is set by each `tell`. Clear it before you look."""
        news = asyncio.Event()
        self._looking.setdefault(name, set()).add(news)
        try:
            yield news
        finally:
            looking = self._looking[name]
            looking.discard(news)
            if not looking:
                del self._looking[name]


async def pause(news: asyncio.Event, seconds: float) -> None:
    """Waits for news, at most so long."""
    try:
        await asyncio.wait_for(news.wait(), seconds)
    except asyncio.TimeoutError:
        return
