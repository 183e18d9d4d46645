"""Histories of agents on three nodes: the OpenAI Agents SDK and pydantic-ai."""

import asyncio
import datetime
import json
import secrets

import pytest

from helve import AsyncClient, InvalidError

#: Bytes that a value may have as JSON.
MOST = 1 << 20


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


def room(value):
    """What a value leaves of the bytes that it may have."""
    return MOST - len(json.dumps(value, separators=(",", ":")))


def large(number, more=0):
    """An item of as many bytes as it may have, and `more`."""
    made = item(number)
    made["content"] += "v" * (room(made) + more)
    return made


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


def test_large_items_of_a_call_are_added_and_too_large_ones_add_none(run):
    pytest.importorskip("agents")
    from helve.openai_agents import HelveSession

    async def case(one, other, owner):
        first, second = (HelveSession("s", client, owner=owner) for client in (one, other))
        await first.add_items([large(n) for n in range(4)])
        assert await second.get_items() == [large(n) for n in range(4)]
        revisions = [record.revision for record in await second._records()]
        assert [revisions.count(each) for each in dict.fromkeys(revisions)] == [3, 1]
        with pytest.raises(InvalidError) as raised:
            await first.add_items([*(large(n) for n in range(3)), large(3, more=1)])
        assert raised.value.reason == "TOO_LARGE"
        assert len(await second.get_items()) == 4

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


def test_a_large_record_and_its_messages_are_kept_and_too_large_ones_leave_none(run):
    pytest.importorskip("pydantic_ai")
    from pydantic_ai.conversation_store import ConversationEntry, ConversationRecord
    from pydantic_ai.messages import ModelRequest, UserPromptPart

    from helve.pydantic_ai import _RECORD, HelveConversationStore, _plain

    now = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc)

    def entry(name, text):
        message = ModelRequest(parts=[UserPromptPart(text, timestamp=now)])
        return ConversationEntry(id=name, parent_id=None, message=message)

    def entries(name, count, more=0):
        """Messages of as many bytes as they may have; the last of `more`."""
        names = [f"{name}{n}" for n in range(count)]
        text = "v" * room(_plain(entry(names[0], "")))
        return [entry(each, text + "v" * more * (each == names[-1])) for each in names]

    def record(name, head):
        """A record of as many bytes as it may have."""
        made = ConversationRecord(conversation_id=name, head_id=head, scope="", updated_at=now)
        made.scope = "s" * room(_RECORD.dump_python(made, mode="json"))
        return made

    async def case(one, other, owner):
        first, second = (HelveConversationStore(client, owner=owner) for client in (one, other))

        async def write(name, new):
            made = record(name, new[-1].id)
            await first.write_record(made, new_entries=new, expected_revision=None)
            assert await second.read_record(name) == made
            for each in new:
                assert await second.read_entry(each.id) == each
            infos = (await other.keys(owner=owner).list("conversations/")).items
            held = [info for info in infos if info.name.split("/")[-1][0] == name]
            assert {info.value_bytes for info in held} == {MOST}
            return len({info.revision for info in held})

        assert await write("a", entries("a", 2)) == 1
        assert await write("b", entries("b", 3)) == 2
        assert await write("c", entries("c", 4)) == 2
        with pytest.raises(InvalidError) as raised:
            await write("d", entries("d", 4, more=1))
        assert raised.value.reason == "TOO_LARGE"
        infos = (await other.keys(owner=owner).list("conversations/")).items
        assert not [info.name for info in infos if info.name.split("/")[-1][0] == "d"]

    run(case)
