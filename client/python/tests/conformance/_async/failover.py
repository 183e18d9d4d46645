"""Exactly once while the leader dies: what was acknowledged is there once, and nothing else is."""

from helve import SHARED, AmbiguousError, Live, digest_of

from .io import begin, ended, together

WORKERS = 8
ROUNDS = 40
#: Side effects: each is asked for by two callers.
ORDERS = WORKERS * ROUNDS // 2


class Tally:
    """What callers were told."""

    def __init__(self):
        self.answers = []
        self.doubts = []

    @property
    def done(self):
        return len(self.answers)

    async def count(self, call):
        try:
            answer = await call()
        except AmbiguousError:
            self.doubts.append(call)
        else:
            self.answers.append(answer)


async def retries_across_a_lost_leader_take_effect_once(setup, lose_leader):
    """Counters, mints and takes by eight callers at once, while a leader is lost and comes back."""
    client = setup.client().with_deadline(60.0)
    counters = client.handles(setup.name, owner="counters")
    minted = client.handles(setup.name, owner="minted")
    queue = client.handles(setup.name, owner="queue")
    counter = await counters.mint(0)
    waiting = await together([lambda n=n: queue.mint(n) for n in range(WORKERS * ROUNDS)])
    tally, ids, taken = Tally(), [], []

    async def work(worker):
        for turn in range(ROUNDS):
            await tally.count(lambda: counters.update(counter, lambda n: n + 1))
            ids.append(await minted.mint([worker, turn]))
            # Two workers ask for each: one of them gets it.
            for step in (0, 1):
                handle = waiting[(worker * ROUNDS + turn + step * ROUNDS) % len(waiting)]
                found = await queue.take(handle)
                if isinstance(found, Live):
                    taken.append(found.record.value)

    working = begin(lambda: together([lambda w=w: work(w) for w in range(WORKERS)]))
    losses = await lose_leader(lambda: tally.done)
    await ended(working)
    assert losses >= 1
    assert not tally.doubts, "with a minute for each call every outcome is known"
    assert await counters.get(counter) == tally.done == WORKERS * ROUNDS
    assert await minted.count() == len(ids) == len(set(ids))
    values = [record.value async for record in minted.scan()]
    assert sorted(values) == [[w, t] for w in range(WORKERS) for t in range(ROUNDS)]
    assert sorted(taken) == list(range(WORKERS * ROUNDS)), "each value was handed out once"


async def claims_across_a_lost_leader_happen_once(setup, lose_leader):
    """Each of many side effects is asked for by two callers, while a leader is lost and back."""
    client = setup.client().with_deadline(60.0)
    # No lease ends in the middle of it.
    payments = client.claims(setup.name, owner=SHARED, lease=600)
    tally, paid = Tally(), []

    async def pay_for(order):
        async def pay(lease):
            paid.append(order)
            return [order, lease.fence]

        return await payments.once(f"{order}/pay", digest_of(order), pay, patience=60.0)

    async def work(worker):
        for turn in range(ROUNDS):
            # The caller after this one asks for it at the same time, or half a run later.
            order = (worker // 2 * ROUNDS + turn + worker % 2 * ROUNDS // 2) % ORDERS
            await tally.count(lambda n=order: pay_for(n))

    working = begin(lambda: together([lambda w=w: work(w) for w in range(WORKERS)]))
    losses = await lose_leader(lambda: tally.done)
    await ended(working)
    assert losses >= 1
    assert not tally.doubts, "with a minute for each call every outcome is known"
    assert len(paid) == len(set(paid)) == len({order for order, _ in tally.answers})
    assert len(tally.answers) == WORKERS * ROUNDS
    results = dict(tally.answers)
    assert all(results[order] == fence for order, fence in tally.answers), "all got one result"
