"""A2A tasks on three nodes: versions, events, and the SDK's own handler in two replicas."""

import asyncio
import secrets

import pytest

pytest.importorskip("a2a.server.cluster")

from a2a.auth.user import User
from a2a.server.agent_execution import AgentExecutor
from a2a.server.cluster import ConcurrentTaskModificationError, TaskVersion, VersionedEvent
from a2a.server.context import ServerCallContext
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.types.a2a_pb2 import (
    AgentCapabilities,
    AgentCard,
    CancelTaskRequest,
    ListTasksRequest,
    Message,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
    TaskState,
    TaskStatusUpdateEvent,
)

from helve import AmbiguousError, AsyncClient
from helve.a2a import HelveTaskEventStream, HelveTaskStore

MISSING = TaskVersion.MISSING


class Named(User):
    is_authenticated = True
    user_name = None

    def __init__(self, name):
        self.user_name = name


def caller(name="alice"):
    return ServerCallContext(user=Named(name))


def task(state="WORKING", context_id="c", task_id="t"):
    made = Task(id=task_id, context_id=context_id)
    made.status.state = TaskState.Value(f"TASK_STATE_{state}")
    return made


def event_of(task):
    return TaskStatusUpdateEvent(task_id=task.id, context_id=task.context_id, status=task.status)


@pytest.fixture
def run(endpoints):
    """Runs a case on the stores and streams of two replicas."""

    def run(case, **options):
        async def whole():
            owner = f"a2a-{secrets.token_hex(8)}"
            async with AsyncClient(endpoints) as one, AsyncClient(endpoints[::-1]) as other:
                stores = [HelveTaskStore(c, owner=owner, **options) for c in (one, other)]
                streams = [HelveTaskEventStream(c, owner=owner) for c in (one, other)]
                await case(stores, streams)

        asyncio.run(whole())

    return run


async def save(store, made, version, context=None):
    return await store.save(
        made, event=event_of(made), prev=None, prev_version=version, context=context or caller()
    )


async def heard(stream, after, count, task_id="t"):
    async def whole():
        found = []
        async for each in stream.subscribe(task_id, after=after):
            found.append(each)
            if len(found) == count:
                break
        return found

    # An event that does not come fails the test.
    return await asyncio.wait_for(whole(), 60)


def test_of_ten_writers_of_one_version_one_succeeds(run):
    async def case(stores, streams):
        first = await asyncio.gather(
            *(save(stores[n % 2], task(context_id=f"{n}"), MISSING) for n in range(10)),
            return_exceptions=True,
        )
        (version,) = [each for each in first if isinstance(each, TaskVersion)]
        assert sum(isinstance(each, ConcurrentTaskModificationError) for each in first) == 9
        found = await stores[1].get("t", caller())
        assert found.version == version
        later = await asyncio.gather(
            *(save(stores[n % 2], task(context_id=f"{n}"), version) for n in range(10)),
            return_exceptions=True,
        )
        (second,) = [each for each in later if isinstance(each, TaskVersion)]
        assert second.is_after(version)
        third = await save(stores[0], task(context_id="third"), second)
        # The losers left no event behind, and no event of those that won is missing.
        versions = [version, second, third]
        for at, stream in enumerate((*streams, streams[0])):
            after = versions[at - 1] if at else MISSING
            events = await heard(stream, after, len(versions) - at)
            assert [each.version for each in events] == versions[at:]

    run(case)


def test_a_cancel_replaces_what_runs_and_nothing_that_ended(run):
    async def case(stores, _):
        with pytest.raises(ConcurrentTaskModificationError):
            await save(stores[0], task("CANCELED"), MISSING)
        old = await save(stores[0], task(), MISSING)
        new = await save(stores[0], task(context_id="later"), old)
        cancelled = await save(stores[1], task("CANCELED"), old)
        assert cancelled.is_after(new)
        for state in ("CANCELED", "WORKING"):
            with pytest.raises(ConcurrentTaskModificationError):
                await save(stores[0], task(state), new)

    run(case)


def test_a_task_is_one_owners_and_so_are_its_events(run):
    async def case(stores, _):
        version = await save(stores[0], task(), MISSING)
        assert await stores[1].get("t", caller("bob")) is None
        # Streams name tasks by their id alone, so another owner must not get this id, too.
        with pytest.raises(ConcurrentTaskModificationError):
            await save(stores[1], task(), MISSING, caller("bob"))
        await stores[1].delete("t", caller("bob"))
        assert (await stores[0].get("t", caller())).version == version
        await save(stores[0], task(context_id="later"), version)
        await stores[1].delete("t", caller())
        assert await stores[0].get("t", caller()) is None
        await save(stores[1], task(), MISSING, caller("bob"))
        left = await stores[0]._keys.list()
        assert len(left.items) == 3, "the deleted task left nothing behind"

    run(case)


def test_tasks_claims_and_events_have_their_lifetimes(run):
    async def case(stores, _):
        version = await save(stores[0], task(), MISSING)
        await save(stores[1], task(context_id="later"), version)
        found = (await stores[0]._keys.list()).items
        lives = sorted((info.expires_at_ms - info.updated_at_ms) // 1000 for info in found)
        assert lives == [30, 30, 60, 60]
        ends = {info.expires_at_ms for info in found if info.name.startswith("a2a/log/") is False}
        assert len(ends) == 1, "the claim lives as long as its task"

    run(case, ttl=60, log_ttl=30)


def test_tasks_are_listed_by_pages_filters_and_owner(run):
    async def case(stores, _):
        for n in range(7):
            made = task("COMPLETED" if n % 2 else "WORKING", f"c{n % 3}", f"t{n}")
            made.status.timestamp.FromSeconds(1_800_000_000 + n)
            await save(stores[0], made, MISSING)
        await save(stores[0], task(task_id="other"), MISSING, caller("bob"))
        page = await stores[1].list(ListTasksRequest(page_size=5), caller())
        assert ([each.id for each in page.tasks], page.total_size) == (
            ["t6", "t5", "t4", "t3", "t2"],
            7,
        )
        following = ListTasksRequest(page_size=5, page_token=page.next_page_token)
        page = await stores[1].list(following, caller())
        assert [each.id for each in page.tasks] == ["t1", "t0"]
        completed = ListTasksRequest(status=TaskState.TASK_STATE_COMPLETED)
        assert (await stores[1].list(completed, caller())).total_size == 3

    run(case)


def test_a_save_whose_answer_is_lost_is_found_under_its_id(run):
    async def case(stores, _):
        store = stores[0]
        transaction = store._client.transaction

        def losing(before_commit):
            """A transaction whose answer is lost, after this happened."""
            made = transaction()
            commit = made.commit

            async def lose():
                await before_commit(commit)
                raise AmbiguousError("lost")

            made.commit = lose
            store._client.transaction = transaction
            return made

        async def takes_effect(commit):
            await commit()

        async def takes_effect_and_is_followed(commit):
            done = await commit()
            await save(stores[1], task(context_id="later"), TaskVersion(done.revision))

        async def is_overtaken(_):
            await save(stores[1], task(context_id="other"), version)

        async def is_still_under_way(_):
            pass

        async def saved(how, before):
            store._client.transaction = lambda: losing(how)
            return await save(store, task(), before)

        version = await saved(takes_effect, MISSING)
        assert (await store.get("t", caller())).version == version
        followed = await saved(takes_effect_and_is_followed, version)
        version = (await store.get("t", caller())).version
        assert version.is_after(followed)
        with pytest.raises(ConcurrentTaskModificationError):
            await saved(is_overtaken, version)
        version = (await store.get("t", caller())).version
        with pytest.raises(AmbiguousError):
            await saved(is_still_under_way, version)

    run(case)


def test_a_message_reaches_other_replicas_and_subscribers_end(run):
    async def case(stores, streams):
        version = await save(stores[0], task(), MISSING)
        hearing = asyncio.ensure_future(heard(streams[1], version, 2))
        message = Message(message_id="m", task_id="t")
        await streams[0].publish("t", VersionedEvent(message, version))
        await save(stores[0], task("COMPLETED"), version)
        events = await hearing
        assert [each.event.message_id for each in events[:1]] == ["m"]
        assert isinstance(events[1].event, TaskStatusUpdateEvent)
        assert events[1].version.is_after(events[0].version)
        assert events[0].version.is_after(version)

    run(case)


class Agent(AgentExecutor):
    """Works until it is let go."""

    def __init__(self):
        self.may_end = asyncio.Event()

    async def execute(self, context, queue):
        made = task(context_id=context.context_id, task_id=context.task_id)
        await queue.enqueue_event(made)
        await self.may_end.wait()
        ended = task("COMPLETED", context.context_id, context.task_id)
        await queue.enqueue_event(event_of(ended))

    async def cancel(self, context, queue):
        ended = task("CANCELED", context.context_id, context.task_id)
        await queue.enqueue_event(event_of(ended))


def handler(store, stream, agent):
    card = AgentCard(name="agent", capabilities=AgentCapabilities(streaming=True))
    return DefaultRequestHandler(agent, store, agent_card=card, event_stream=stream)


def test_the_sdk_serves_a_task_at_a_replica_that_does_not_run_it(run):
    async def case(stores, streams):
        agent = Agent()
        runs, other = (
            handler(store, stream, each)
            for store, stream, each in zip(stores, streams, (agent, Agent()), strict=True)
        )
        request = SendMessageRequest(message=Message(message_id="m", role="ROLE_USER"))
        request.message.parts.add(text="go")
        sent = runs.on_message_send_stream(request, caller())
        begun = await anext(sent)
        subscribed = other.on_subscribe_to_task(SubscribeToTaskRequest(id=begun.id), caller())
        snapshot = await anext(subscribed)
        assert snapshot.id == begun.id
        agent.may_end.set()
        rest = [each async for each in subscribed]
        assert rest[-1].status.state == TaskState.TASK_STATE_COMPLETED
        assert [each async for each in sent][-1].status == rest[-1].status

    run(case)


def test_the_sdk_cancels_a_task_at_a_replica_that_does_not_run_it(run):
    async def case(stores, streams):
        runs, other = (
            handler(store, stream, Agent()) for store, stream in zip(stores, streams, strict=True)
        )
        request = SendMessageRequest(message=Message(message_id="m", role="ROLE_USER"))
        request.message.parts.add(text="go")
        sent = runs.on_message_send_stream(request, caller())
        begun = await anext(sent)
        answer = await other.on_cancel_task(CancelTaskRequest(id=begun.id), caller())
        assert answer.status.state == TaskState.TASK_STATE_CANCELED
        found = await stores[0].get(begun.id, caller())
        assert found.task.status.state == TaskState.TASK_STATE_CANCELED
        await sent.aclose()

    run(case)
