"""Histories of agents on three nodes: the OpenAI Agents SDK and pydantic-ai."""

import asyncio
import secrets

import pytest

from helve import AsyncClient


@pytest.fixture
def run(endpoints):
    """Runs a case on clients of two replicas, under an owner of its own."""

    def run(case):
        async def whole():
            async with (
                AsyncClient(endpoints, deadline=60.0) as one,
                AsyncClient(endpoints[::-1], deadline=60.0) as other,
            ):
                await case(one, other, f"agents-{secrets.token_hex(8)}")

        asyncio.run(whole())

    return run


def item(number):
    return {"role": "user", "content": f"{number}"}


def numbers(items):
    return [int(each["content"]) for each in items]


def test_items_of_two_replicas_are_in_order_and_none_is_lost(run):
    agents = pytest.importorskip("agents")
    from helve.openai_agents import HelveSession

    async def case(one, other, owner):
        first, second = (HelveSession("s/1", client, owner=owner) for client in (one, other))
        assert isinstance(first, agents.memory.Session)
        assert await first.get_items() == []
        assert await first.pop_item() is None
        await first.add_items([item(n) for n in range(300)])
        await second.add_items([item(300), item(301)])
        assert numbers(await first.get_items()) == list(range(302))
        assert numbers(await second.get_items(3)) == [299, 300, 301]
        assert await second.get_items(0) == []
        other_session = HelveSession("s/2", one, owner=owner)
        assert await other_session.get_items() == []
        popped = await asyncio.gather(*((first, second)[n % 2].pop_item() for n in range(10)))
        assert sorted(numbers(popped)) == list(range(292, 302))
        await first.clear_session()
        assert await second.get_items() == []
        await asyncio.gather(*((first, second)[n % 2].add_items([item(n)]) for n in range(20)))
        assert sorted(numbers(await first.get_items())) == list(range(20))

    run(case)


def test_no_item_is_lost_while_the_leader_is_killed(run, cluster):
    pytest.importorskip("agents")
    from helve.openai_agents import HelveSession

    async def case(one, other, owner):
        sessions = [HelveSession("s", client, owner=owner) for client in (one, other)]

        def kill():
            leader = cluster.leader()
            leader.kill()
            return leader

        killing = asyncio.get_running_loop().run_in_executor(None, kill)
        for n in range(40):
            await sessions[n % 2].add_items([item(n)])
        (await killing).start()
        for session in sessions:
            assert numbers(await session.get_items()) == list(range(40))

    run(case)


def test_a_conversation_goes_on_at_another_replica_and_one_of_two_writers_wins(run):
    pydantic_ai = pytest.importorskip("pydantic_ai")
    from pydantic_ai.conversation_store import ConversationConflict
    from pydantic_ai.models.test import TestModel

    from helve.pydantic_ai import HelveConversationStore

    async def case(one, other, owner):
        stores = [HelveConversationStore(client, owner=owner) for client in (one, other)]
        agent = pydantic_ai.Agent(TestModel())
        assert await stores[0].load("c/1") is None
        result = await agent.run(
            "first", conversation=pydantic_ai.Conversation(conversation_id="c/1")
        )
        await stores[0].save(result, scope="alice")
        loaded = [await store.load("c/1") for store in stores]
        assert len(loaded[1].messages) == 2
        assert loaded[0].messages == loaded[1].messages
        answers = [await agent.run("more", conversation=each) for each in loaded]
        saved = await asyncio.gather(
            *(store.save(each) for store, each in zip(stores, answers, strict=True)),
            return_exceptions=True,
        )
        assert sum(isinstance(each, ConversationConflict) for each in saved) == 1
        again = await stores[0].load("c/1", scope="alice")
        assert len(again.messages) == 4
        assert await stores[0].load("c/1", scope="bob") is None
        assert len(await stores[1].load_entries("c/1", limit=1)) == 1
        listed = await stores[1].read_records(scope="alice")
        assert [record.conversation_id for record in listed] == ["c/1"]
        left = (await one.keys(owner=owner).list("conversations/entries/")).items
        assert len(left) == 4, "the loser left nothing behind"
        await stores[1].delete("c/1")
        assert await stores[0].load("c/1") is None

    run(case)
