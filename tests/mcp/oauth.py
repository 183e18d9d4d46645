"""OAuth credentials in the cluster: clients that are killed and go on elsewhere, replicas that refresh at once."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from checks import Report, equal, expect
from processes import PATIENCE_S, Cluster, Process, free_port, until

SECTION = "oauth"
# The life of a login's first token, as authorization_server.py has it.
LOGIN_EXPIRES_IN_S = 1
# Of the replica that dies while it refreshes: the others wait this long.
GUARD_TTL_MS = 5000


class AuthorizationServer:
    """Authlib's, and the MCP server that it protects."""

    def __init__(self, directory: Path) -> None:
        self.issuer = f"http://127.0.0.1:{free_port()}"
        port = free_port()
        self.resource = f"http://127.0.0.1:{port}/mcp"
        script = Path(__file__).with_name("authorization_server.py")
        command = [sys.executable, str(script), self.issuer.rsplit(":", 1)[1], str(port)]
        self.process = Process("authorization-server", command, port, directory / "authorization-server.log")

    def counts(self) -> dict[str, int]:
        with urllib.request.urlopen(f"{self.issuer}/test/counts", timeout=PATIENCE_S) as answer:
            return json.load(answer)

    def tell(self, what: str) -> None:
        request = urllib.request.Request(f"{self.issuer}/test/{what}", method="POST")
        urllib.request.urlopen(request, timeout=PATIENCE_S).close()

    def visit(self, url: str) -> str:
        """What a browser does, and where it is sent back to."""

        class Stay(urllib.request.HTTPRedirectHandler):
            def redirect_request(self, *_: Any) -> None:
                return None

        try:
            urllib.request.build_opener(Stay).open(url, timeout=PATIENCE_S)
        except urllib.error.HTTPError as answer:
            return answer.headers["Location"]
        raise AssertionError(f"{url} redirects no browser")


class Agent:
    """One process of the client."""

    def __init__(
        self, program: Path, server: AuthorizationServer, endpoints: list[str], key: Path, guard_ttl_ms: int
    ) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("HELVE_")}
        environment |= {
            "HELVE_ENDPOINTS": ",".join(endpoints),
            "HELVE_KEY_FILE": str(key),
            "MCP_SERVER": server.resource,
            "GUARD_TTL_MS": str(guard_ttl_ms),
        }
        self.running = subprocess.Popen(
            [str(program)], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.answers: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        expect(self.answer().get("ready"), "the client starts")

    def _read(self) -> None:
        assert self.running.stdout is not None
        for line in self.running.stdout:
            self.answers.put(line)
        self.answers.put(None)

    def say(self, command: str) -> None:
        assert self.running.stdin is not None
        print(command, file=self.running.stdin, flush=True)

    def answer(self) -> dict[str, Any]:
        line = self.answers.get(timeout=PATIENCE_S)
        expect(line is not None, "the client ended")
        return json.loads(line)

    def ask(self, command: str) -> dict[str, Any]:
        self.say(command)
        return self.answer()

    def kill(self) -> None:
        """SIGKILL."""
        self.running.kill()
        self.running.wait()


class Checks:
    """A cluster, an authorization server, and as many clients as a check asks for."""

    def __init__(self, cluster: Cluster, directory: Path, program: Path, guard_ttl_ms: int) -> None:
        self.cluster = cluster
        self.guard_ttl_ms = guard_ttl_ms
        self.program = program
        self.server = AuthorizationServer(directory)
        self.agents: list[Agent] = []
        self.key = self.new_key(directory / "state.key")
        self.other_key = self.new_key(directory / "other.key")

    @staticmethod
    def new_key(path: Path) -> Path:
        path.touch(0o600)
        path.write_text(os.urandom(32).hex())
        return path

    def agent(self, first: int = 0, key: Path | None = None) -> Agent:
        """A client that begins with this node."""
        endpoints = self.cluster.endpoints.split(",")
        endpoints = endpoints[first:] + endpoints[:first]
        agent = Agent(self.program, self.server, endpoints, key or self.key, self.guard_ttl_ms)
        self.agents.append(agent)
        return agent

    def end(self) -> None:
        for agent in self.agents:
            agent.kill()
        if self.server.process.running is not None:
            self.server.process.kill()

    def log_in(self, agent: Agent) -> None:
        url = agent.ask("login").get("authorize")
        expect(url, "the client says where the user must go")
        equal(agent.ask(f"callback {self.server.visit(url)}"), {"logged_in": True}, "the login")
        # The SDK keeps a token of so short a life until its end, and counts whole seconds.
        expired = time.monotonic() + LOGIN_EXPIRES_IN_S + 1
        until("the token of the login to expire", lambda: time.monotonic() > expired)

    def gained(self, before: dict[str, int], what: str) -> int:
        return self.server.counts()[what] - before[what]

    async def restart(self) -> str:
        """A client that is killed goes on in another process, through other nodes, without a login."""
        first = self.agent(0)
        equal(first.ask("call whoami"), {"login_required": True}, "before any login")
        self.log_in(first)
        called(first.ask("call whoami"))
        before = self.server.counts()
        first.kill()
        victim = self.cluster.leader()
        victim.kill()
        try:
            called(self.agent(1).ask("call whoami"))
        finally:
            victim.start()
        for what in ("authorize", "code", "refresh", "discover"):
            equal(self.gained(before, what), 0, f"requests of kind {what} by the second process")
        equal(before["authorize"], 1, "logins")
        return "client and leader killed, no login, no refresh, no discover"

    async def together(self) -> str:
        """Replicas whose token expires refresh at once: the token endpoint is asked once."""
        self.log_in(self.agent(0))
        before = self.server.counts()
        agents = [self.agent(node) for node in (0, 1, 2, 0)]
        self.server.tell("hold")
        for agent in agents:
            agent.say("call whoami")
        until("a refresh", lambda: self.gained(before, "refresh"))
        self.server.tell("release")
        for agent in agents:
            called(agent.answer())
        equal(self.gained(before, "refresh"), 1, "refreshes")

        # They are connected now, and hear from the server that their token is no good.
        self.server.tell("expire")
        self.server.tell("hold")
        for agent in agents:
            agent.say("call whoami")
        until("a refresh", lambda: self.gained(before, "refresh") == 2)
        self.server.tell("release")
        for agent in agents:
            called(agent.answer())
        equal(self.gained(before, "refresh"), 2, "refreshes")
        equal(self.gained(before, "reused"), 0, "refresh tokens presented twice")
        return f"{len(agents)} replicas, one refresh each time"

    async def killed_refresh(self) -> str:
        """A replica killed in the middle of its refresh: its guard lapses, and another refreshes."""
        self.log_in(self.agent(0))
        before = self.server.counts()
        first, second = self.agent(0), self.agent(1)
        self.server.tell("hold")
        first.say("call whoami")
        until("a refresh", lambda: self.gained(before, "refresh"))
        first.kill()
        self.server.tell("drop")
        called(second.ask("call whoami"))
        equal(self.gained(before, "refresh"), 2, "refreshes")
        equal(self.gained(before, "reused"), 0, "refresh tokens presented twice")
        return "the killed one's, and one more"

    async def moved_login(self) -> str:
        """A login begun in one process is completed in another, once."""
        first = self.agent(0)
        url = first.ask("login")["authorize"]
        first.kill()
        before = self.server.counts()
        callback = self.server.visit(url)
        agents = [self.agent(1), self.agent(2)]
        for agent in agents:
            agent.say(f"callback {callback}")
        answers = [agent.answer() for agent in agents]
        equal(sum("logged_in" in answer for answer in answers), 1, f"logins completed: {answers}")
        equal(self.gained(before, "code"), 1, "codes exchanged")
        called(agents[0].ask("call whoami"))
        return "two callbacks at once, one code exchanged"

    async def wrong_key(self) -> str:
        """Without the key nothing opens; that is an error, and no reason to log in."""
        before = self.server.counts()
        answer = self.agent(0, self.other_key).ask("call whoami")
        expect("does not open" in answer.get("error", ""), answer)
        equal(self.server.counts(), before, "the server was not called")
        listed = self.cluster.run("state", "list", "client-state/", "--endpoints", self.cluster.endpoints)
        expect(b"credentials" in listed.stdout, listed)
        return answer["error"].split(";")[0][-60:]


def called(answer: dict[str, Any]) -> None:
    """The tool was called, with a token of the right user."""
    content = answer.get("called", {}).get("content")
    expect(content and content[0].get("text") == "ann", f"whoami answered {answer}")


async def run(cluster: Cluster, directory: Path, report: Report, program: Path, plant: str | None) -> None:
    """All checks of this section. `program` is the example client `oauth_client`. With `short-guard` planted the guard of a refresh
    lapses at once."""
    checks = Checks(cluster, directory, program, guard_ttl_ms=1 if plant == "short-guard" else GUARD_TTL_MS)
    try:
        checks.server.process.start()
        for show in (checks.restart, checks.together, checks.killed_refresh, checks.moved_login, checks.wrong_key):
            fact = (show.__doc__ or show.__name__).split(":")[0].rstrip(".")
            await report.check(SECTION, fact, show)
        counts = checks.server.counts()
        report.count("requests to the token endpoint", counts["code"] + counts["refresh"])
    finally:
        checks.end()
