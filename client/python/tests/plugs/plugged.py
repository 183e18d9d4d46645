"""What each plug keeps, in one shape: a replica writes numbers by it, and others read them.

As a program it is such a replica: python plugged.py PLUG OWNER WORKER, with HELVE_ENDPOINTS. It
begins with the first line of its input, says each number once its write was acknowledged, and ends
when its input does.
"""

import asyncio
import sys
import time
import types

from helve import AsyncClient

PLUGS = {}


def plug(needs):
    """Names what a plug is for; without that package its test is left out."""

    def noted(make):
        PLUGS[make.__name__] = (needs, make)
        return make

    return noted


def kept(write, read):
    """`write(number)` keeps a number, and `read()` answers all that were kept."""
    return types.SimpleNamespace(write=write, read=read)


@plug("key_value.aio.protocols")
def key_value(client, owner, worker):
    from helve.key_value import HelveStore

    store = HelveStore(client, owner=owner)

    async def read():
        return sorted(int(key) for key in await store.keys(worker))

    return kept(lambda n: store.put(f"{n:05}", {"n": n}, collection=worker), read)


@plug("mcp.server.streamable_http")
def events(client, owner, worker):
    from helve.mcp import _MESSAGE, EventStore

    store = EventStore(client, owner=owner).scoped(worker)
    first = []

    async def write(n):
        made = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": n}}
        await store.store_event("stream", _MESSAGE.validate_python(made))

    async def read():
        records = [record async for record in store._keys.scan(store._prefix)]
        oldest = min(records, key=lambda record: record.revision)
        stream, number = oldest.name.split("/")[-2:]

        async def send(event):
            first.append(_MESSAGE.dump_python(event.message, mode="json")["params"]["data"])

        first[:] = [oldest.value["message"]["params"]["data"]]
        await store.replay_events_after(f"{stream}.{number}", send)
        return list(first)

    return kept(write, read)


@plug("mcp.client.auth")
def login(client, owner, worker):
    from mcp.shared.auth import OAuthToken

    from helve.mcp import TokenStorage

    storage = TokenStorage(client, f"https://{worker}.test/mcp", owner=owner)

    async def read():
        # Only the last ones are kept: they say how many there were.
        tokens = await storage.get_tokens()
        return list(range(int(tokens.access_token) + 1))

    return kept(lambda n: storage.set_tokens(OAuthToken(access_token=str(n))), read)


@plug("mcp.server.auth.provider")
def oauth_server(client, owner, worker):
    from mcp.shared.auth import OAuthClientInformationFull

    from helve.mcp_oauth import HelveOAuthProvider

    provider = HelveOAuthProvider(client, owner=owner, prefix=f"oauth/{worker}/")

    async def write(n):
        made = OAuthClientInformationFull(client_id=f"{n}", redirect_uris=["http://127.0.0.1/"])
        await provider.register_client(made)

    async def read():
        found = await provider._keys.list_values(f"oauth/{worker}/")
        return sorted(int(record.value["client_id"]) for record in found.items)

    return kept(write, read)


@plug("mcp.client.caching")
def responses(client, owner, worker):
    import mcp_types
    from mcp.client.caching import CacheEntry, CacheKey

    from helve.mcp_cache import HelveResponseCacheStore

    store = HelveResponseCacheStore(client, owner=owner)

    def key(n):
        return CacheKey("resources/read", f"{n}", worker)

    async def write(n):
        value = mcp_types.ListToolsResult(tools=[])
        await store.set(key(n), CacheEntry(value, "private", time.time() + 3600))

    async def read():
        found = []
        while await store.get(key(len(found))) is not None:
            found.append(len(found))
        return found

    return kept(write, read)


@plug("mcp.server.subscriptions")
def bus(client, owner, worker):
    from mcp.server.subscriptions import ResourceUpdated

    from helve.mcp_subscriptions import HelveSubscriptionBus

    made = HelveSubscriptionBus(client, owner=owner)

    async def read():
        begin = f"subscriptions/updated/{worker}/"
        found = await client.keys(owner=owner).list(begin)
        return sorted(int(info.name[len(begin) :]) for info in found.items)

    return kept(lambda n: made.publish(ResourceUpdated(f"{worker}/{n}")), read)


@plug("mcp.shared.experimental.tasks.store")
def tasks(client, owner, worker):
    from mcp.types import TaskMetadata

    from helve.mcp_tasks import HelveTaskStore

    store = HelveTaskStore(client, owner=owner, prefix=f"tasks/{worker}/")

    async def read():
        found, cursor = await store.list_tasks()
        while cursor is not None:
            more, cursor = await store.list_tasks(cursor)
            found += more
        return sorted(int(task.taskId) for task in found)

    return kept(lambda n: store.create_task(TaskMetadata(), f"{n}"), read)


@plug("a2a.server.cluster")
def a2a_tasks(client, owner, worker):
    from a2a.server.cluster import TaskVersion
    from a2a.server.context import ServerCallContext
    from a2a.types.a2a_pb2 import Task, TaskState, TaskStatusUpdateEvent

    from helve.a2a import HelveTaskEventStream, HelveTaskStore

    store = HelveTaskStore(client, owner=owner)
    stream = HelveTaskEventStream(client, owner=owner)
    context = ServerCallContext()
    version = TaskVersion.MISSING

    async def write(n):
        nonlocal version
        task = Task(id=worker, context_id=f"{n}")
        task.status.state = TaskState.TASK_STATE_WORKING
        event = TaskStatusUpdateEvent(task_id=worker, context_id=f"{n}", status=task.status)
        version = await store.save(task, event=event, prev_version=version, context=context)

    async def read():
        held = await store.get(worker, context)
        found = []
        async for each in stream.subscribe(worker, after=TaskVersion.MISSING):
            found.append(int(each.event.context_id))
            if each.version == held.version:
                break
        assert held.task.context_id == f"{found[-1]}"
        return found

    return kept(write, read)


@plug("langgraph.checkpoint.base")
def checkpoints(client, owner, worker):
    from langgraph.checkpoint.base import empty_checkpoint

    from helve.langgraph import HelveSaver

    saver = HelveSaver(client, owner=owner)
    config = {"configurable": {"thread_id": worker, "checkpoint_ns": ""}}

    async def write(n):
        made = empty_checkpoint()
        made["channel_values"], made["channel_versions"] = {"n": n}, {"n": f"{n:032}.0"}
        await saver.aput(config, made, {"step": n}, made["channel_versions"])

    async def read():
        return sorted(
            [each.checkpoint["channel_values"]["n"] async for each in saver.alist(config)]
        )

    return kept(write, read)


@plug("langgraph.store.base")
def items(client, owner, worker):
    from helve.langgraph import HelveItemStore

    store = HelveItemStore(client, owner=owner)

    async def read():
        found = await store.asearch((worker,), limit=100_000)
        return sorted(each.value["n"] for each in found)

    return kept(lambda n: store.aput((worker,), f"{n}", {"n": n}), read)


@plug("agents.memory")
def agent_session(client, owner, worker):
    from helve.openai_agents import HelveSession

    session = HelveSession(worker, client, owner=owner)

    async def read():
        return [int(each["content"]) for each in await session.get_items()]

    return kept(lambda n: session.add_items([{"role": "user", "content": f"{n}"}]), read)


@plug("pydantic_ai.conversation_store")
def conversation(client, owner, worker):
    import pydantic_ai
    from pydantic_ai.models.test import TestModel

    from helve.pydantic_ai import HelveConversationStore

    store = HelveConversationStore(client, owner=owner)
    agent = pydantic_ai.Agent(TestModel())
    held = pydantic_ai.Conversation(conversation_id=worker)

    async def write(n):
        nonlocal held
        await store.save(await agent.run(f"{n}", conversation=held))
        held = await store.load(worker)

    async def read():
        found = await store.load(worker)
        prompts = [part.content for each in found.messages for part in each.parts]
        return [int(prompt) for prompt in prompts if prompt.isdigit()]

    return kept(write, read)


async def work(name, owner, worker):
    async with AsyncClient.from_environment(deadline=60.0) as client:
        plugged = PLUGS[name][1](client, owner, worker)
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, sys.stdin.readline)
        ends = loop.run_in_executor(None, sys.stdin.read)
        number = 0
        while not ends.done():
            await plugged.write(number)
            print(number, flush=True)
            number += 1


if __name__ == "__main__":
    asyncio.run(work(*sys.argv[1:]))
