"""What the cases wait with, for asyncio."""

import asyncio


async def sleep(seconds):
    await asyncio.sleep(seconds)


async def together(calls):
    """Makes all calls at once. Each is a function."""
    return await asyncio.gather(*(call() for call in calls))


def begin(call):
    """Makes a call beside what follows."""
    return asyncio.ensure_future(call())


async def ended(begun):
    """What a call answered that was begun."""
    return await begun


async def give_way():
    await asyncio.sleep(0)


def run(case, setup):
    async def whole():
        try:
            await case(setup)
        finally:
            await setup.close()

    asyncio.run(whole())
