"""Both clients while the leading node is killed, frozen or replaced under them."""

import asyncio
import importlib

import pytest
from processes import until

CASES = [
    "retries_across_a_lost_leader_take_effect_once",
    "claims_across_a_lost_leader_happen_once",
]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(
    ("flavour", "identities", "how"),
    [
        ("_async", "session", "kill"),
        ("_async", "request-id", "kill"),
        ("_async", "session", "freeze"),
        ("_sync", "session", "kill"),
        ("_sync", "request-id", "freeze"),
    ],
)
def test_a_lost_leader(cluster, endpoints, flavour, identities, how, name):
    cases = importlib.import_module(f"conformance.{flavour}.failover")
    setup = importlib.import_module(f"conformance.{flavour}.setup")
    io = importlib.import_module(f"conformance.{flavour}.io")

    def lose(done):
        """Loses the leader twice, each time in the middle of the work."""

        def others_go_on():
            # The old leader may have answered one call of each worker. More need a new leader.
            enough = min(done() + cases.WORKERS + 1, cases.WORKERS * cases.ROUNDS)
            until("the others to go on", lambda: done() >= enough)

        for enough in (40, 160):
            until("the callers to get on", lambda enough=enough: done() >= enough)
            leader = cluster.leader()
            if how == "kill":
                leader.kill()
                others_go_on()
                leader.start()
            else:
                leader.freeze()
                try:
                    others_go_on()
                finally:
                    leader.thaw()
            cluster.wait_ready()
        return 2

    async def lose_beside(done):
        return await asyncio.get_running_loop().run_in_executor(None, lose, done)

    case = getattr(cases, name)

    def with_loss(made):
        return case(made, lose_beside if flavour == "_async" else lose)

    io.run(with_loss, setup.Setup(endpoints, identities=identities))
