"""What the client does when nodes refuse, fall silent or forget, shown on scripted nodes.

These are the cases of the Rust client's `client/tests/retry.rs`, and what else a script shows.
"""

import time

from scripted import ANSWER, BREAK, HANG, UNREAD, Mute, Node, gone

from helve import SHARED, AsyncClient

from .io import begin, ended, sleep
from .setup import error_of, kind_of

PATIENT = 600.0
#: A try lasts so long where a node is to be found silent: the sound one answers within it, too.
BRIEF = 3.0


def client(*nodes, **options):
    # Far beyond what a node takes that answers: a try of a busy machine is not given up.
    options = {"attempt_timeout": 5.0, "deadline": 20.0, **options}
    return AsyncClient([getattr(node, "address", node) for node in nodes], **options)


def store(client):
    return client.handles("s", owner=SHARED)


async def mint(client):
    return await store(client).mint(1)


async def a_try_whose_answer_is_lost_is_repeated_under_the_same_identity_elsewhere(options):
    with Node(BREAK) as first, Node(ANSWER) as second:
        async with client(first, second, **options) as made:
            assert await mint(made) == "minted"
        assert len(first.identities) == 1
        assert first.identities == second.identities


async def a_silent_node_does_not_eat_the_deadline(options):
    with Node(HANG, HANG) as silent, Node(ANSWER, ANSWER) as sound:
        async with client(silent, sound, attempt_timeout=BRIEF, **options) as made:
            assert await mint(made) == "minted"
            assert await mint(made) == "minted"
        assert len(silent.identities) == 1, "the second call begins elsewhere"
        assert silent.identities[0] == sound.identities[0]
        assert sound.identities[0] != sound.identities[1]


async def overload_is_waited_out(options):
    with Node("OVERLOADED", "NO_LEADER", ANSWER) as node:
        async with client(node, **options) as made:
            assert await mint(made) == "minted"
        assert len(node.identities) == 3
        assert all(each == node.identities[0] for each in node.identities)


async def a_node_that_asks_for_a_pause_is_given_it(options):
    with Node(("OVERLOADED", 0.7), ANSWER) as node:
        async with client(node, **options) as made:
            began = time.monotonic()
            assert await mint(made) == "minted"
            assert time.monotonic() - began >= 0.7


async def a_pause_beyond_the_deadline_ends_the_call_at_once(options):
    with Node(("OVERLOADED", 60.0)) as node:
        async with client(node, **options) as made:
            began = time.monotonic()
            assert await kind_of(lambda: mint(made)) == "Overloaded"
            assert time.monotonic() - began < 10


async def a_call_that_had_no_effect_gets_a_new_identity_when_its_own_is_refused(options):
    reason = "SESSION_EXPIRED" if options["identities"] == "session" else "TOO_EARLY"
    with Node(reason, ANSWER) as node:
        async with client(node, **options) as made:
            assert await mint(made) == "minted"
        assert node.identities[0] != node.identities[1]


async def a_call_in_doubt_is_never_sent_under_another_identity(options):
    reason = "SESSION_EXPIRED" if options["identities"] == "session" else "REQUEST_TOO_OLD"
    with Node(BREAK, reason, ANSWER) as node:
        async with client(node, **options) as made:
            error = await error_of(lambda: mint(made))
            assert (error.kind, error.maybe_done) == ("Ambiguous", True)
        assert len(node.identities) == 2
        assert node.identities[0] == node.identities[1]


async def outcome_is_final_though_an_earlier_try_was_in_doubt(options):
    with Node(BREAK, "CONFLICT") as node:
        async with client(node, **options) as made:
            error = await error_of(lambda: mint(made))
            assert (error.kind, error.maybe_done) == ("Conflict", False)


async def out_of_time_is_ambiguous_only_if_a_try_may_have_had_an_effect(options):
    with Node() as silent:
        async with client(silent, **options) as made:
            # Time enough to send the write.
            brief = made.with_deadline(2.0)
            assert await kind_of(lambda: mint(brief)) == "Ambiguous"
            assert await kind_of(lambda: store(brief).get("h")) == "Unavailable"
    async with client(gone(), deadline=2.0, **options) as made:
        error = await error_of(lambda: mint(made))
        assert (error.kind, error.is_unconnected) == ("Unavailable", True)


async def one_try_is_ambiguous_at_once(options):
    with Node(BREAK, ANSWER) as node:
        async with client(node, tries_max=1, **options) as made:
            assert await kind_of(lambda: mint(made)) == "Ambiguous"
        assert len(node.identities) == 1


async def a_node_that_stops_did_nothing_and_another_one_is_tried(options):
    with Node("STOPPING") as stopping, Node(ANSWER) as sound:
        async with client(stopping, sound, **options) as made:
            assert await mint(made) == "minted"
    with Node(BREAK) as in_doubt, Node("STOPPING") as stopping:
        async with client(in_doubt, stopping, **options) as made:
            assert await kind_of(lambda: mint(made.with_deadline(2.0))) == "Ambiguous"


async def closing_ends_calls_under_way(options):
    with Node() as silent:
        async with client(silent, deadline=PATIENT, attempt_timeout=PATIENT, **options) as made:
            sent = begin(lambda: kind_of(lambda: mint(made)))
            while not silent.identities:
                await sleep(0.01)
            read = begin(lambda: kind_of(lambda: store(made).get("h")))
            await sleep(0.1)
            await made.close()
            assert await ended(sent) == "Ambiguous"
            assert await ended(read) == "Closed"
            assert await kind_of(lambda: mint(made)) == "Closed"


async def the_leader_that_a_node_names_is_called_first(options):
    with Node(ANSWER, ANSWER) as leads, Node(ANSWER) as follows:
        follows.leader = leads.address
        # What is left of the three goes to the follower once the leader is silent.
        async with client(follows, leads, attempt_timeout=BRIEF, **options) as made:
            for _ in range(3):
                assert await mint(made) == "minted"
        # The session was opened at the follower, which named the leader.
        assert len(leads.identities) >= 2


async def a_leader_that_is_none_of_the_endpoints_is_called_only_if_asked_for(options):
    for follows_leader, expected in ((False, 0), (True, 1)):
        with Node(ANSWER) as leads, Node(ANSWER, ANSWER, leader=leads.address) as follows:
            settings = {**options, "follow_leader": follows_leader}
            async with client(follows, **settings) as made:
                await store(made).get("h")
                await mint(made)
            assert len(leads.identities) == expected


async def each_call_bears_the_token_of_its_file_as_it_is_now(options):
    path = options["directory"] / "token"
    path.write_text("hlv_first\n")
    path.chmod(0o600)
    settings = {"identities": options["identities"], "token_file": path}
    with Node(ANSWER, ANSWER, ANSWER) as node:
        async with client(node, **settings) as made:
            await mint(made)
            path.write_text("hlv_second\n")
            await sleep(1.1)
            await mint(made)
            path.write_text("")
            await sleep(1.1)
            await mint(made)
        assert node.tokens == ["Bearer hlv_first", "Bearer hlv_second", "Bearer hlv_second"]


async def a_list_that_breaks_off_is_read_again_elsewhere(options):
    with Node(parts=(["a"], BREAK)) as first, Node(parts=(["a"], ["b"])) as second:
        async with client(first, second, **options) as made:
            listing = await store(made).list()
        assert [info.name for info in listing.items] == ["a", "b"]
        assert (first.lists, second.lists) == (1, 1)


async def a_node_that_knows_no_pages_is_read_only_as_far_as_asked(options):
    parts = [[f"{n:02}"] for n in range(50)]
    with Node(parts=parts) as node:
        async with client(node, **options) as made:
            page = await store(made).list_page("04", 3)
        assert [info.name for info in page.items] == ["05", "06", "07"]
        assert page.next == "07"


async def a_list_that_lapses_says_so(options):
    with Node(parts=(["a"], "LIST_LAPSED")) as node:
        async with client(node, **options) as made:
            assert await kind_of(lambda: store(made).list()) == "Lapsed"


async def closing_ends_a_list_under_way(options):
    with Node(parts=(["a"], HANG)) as node:
        async with client(node, deadline=PATIENT, **options) as made:
            listed = begin(lambda: kind_of(lambda: store(made).list()))
            while not node.lists:
                await sleep(0.01)
            await sleep(0.1)
            await made.close()
            assert await ended(listed) == "Closed"


async def an_update_of_several_calls_ends_at_the_deadline(options):
    with Node(*[ANSWER] * 50) as node:
        async with client(node, **{**options, "attempt_timeout": 60.0}) as made:
            brief = made.with_deadline(3.0)
            await store(brief).get("h")
            # The read takes most of the time, and the node never answers the put.
            node.steps = [("SLOW", 2.0)]
            began = time.monotonic()
            kind = await kind_of(lambda: store(brief).update("h", lambda value: value))
            assert kind == "Ambiguous"
            # A put with a deadline of its own would take three more seconds.
            assert time.monotonic() - began < 5.0


async def what_says_ok_without_a_reply_is_no_node(options):
    with Mute() as mute, Node(ANSWER, ANSWER, parts=(("a",),)) as node:
        async with client(mute, **options) as made:
            assert "no node" in str(await error_of(lambda: mint(made)))
            assert "no node" in str(await error_of(lambda: store(made).resolve("x")))
            assert "no node" in str(await error_of(lambda: store(made).list()))
            assert "no node" in str(await error_of(lambda: store(made).list_page()))
        assert mute.calls >= 4
        async with client(mute, node, **options) as made:
            assert await mint(made) == "minted"
            assert [record.name for record in (await store(made).list()).items] == ["a"]


async def a_scan_names_what_it_cannot_read_and_goes_on_if_asked(options):
    with Node(parts=(("a", UNREAD), ("z",))) as node:
        async with client(node, **options) as made:
            found, errors = [], []

            async def scan(**how):
                async for record in store(made).scan(**how):
                    found.append(record.name)

            error = await error_of(scan)
            assert error.kind == "Codec"
            assert UNREAD in str(error)
            assert found == ["a"]
            await scan(unread=errors.append)
            assert found == ["a", "a", "z"]
            assert [UNREAD in str(each) for each in errors] == [True]
