"""Pods of the StatefulSet that come, go, and come back elsewhere, by the commands that the pages for operators name."""

from __future__ import annotations

import json
import re
import shlex
import threading

import yaml

from checks import equal, expect
from kubelet import Kubelet, docker, seat_of
from manifests import problems
from processes import until
from secured import TOP

FOUNDERS = [1, 2, 3]
CALLERS = 4
PAGES = TOP / "docs/operations"
# A writer's token, in the volume of the pod that calls.
TOKEN = "/var/lib/helve/data/cart.token"


def members(kubelet: Kubelet) -> list[dict[str, object]]:
    return json.loads(kubelet.exec(1, "helve", "member", "list", "--output", "json"))["members"]


def voters(kubelet: Kubelet) -> list[object]:
    return sorted(member["seat"] for member in members(kubelet) if member["voter"])


def live(kubelet: Kubelet) -> int:
    """Handles in the store that the test fills."""
    command = ["helve", "handle", "count", "--store", "cart", "--output", "json", "--token-file", TOKEN]
    return json.loads(kubelet.exec(1, *command))["live"]


def hand_over(kubelet: Kubelet, seat: int) -> None:
    """Leadership goes to this pod. It may lead already, and a transfer is refused while its heir lags."""
    to = next(member["id"] for member in members(kubelet) if member["seat"] == seat)

    def look() -> bool:
        status = docker("exec", kubelet.called(1), "helve", "status", "--output", "json", check=False)
        if status.returncode == 0 and json.loads(status.stdout)["leader_id"] == to:
            return True
        docker("exec", kubelet.called(1), "helve", "leader", "transfer", "--to", str(to), check=False)
        return False

    until(f"pod {seat} to lead", look)


def pods_found_their_cluster(kubelet: Kubelet) -> str:
    for seat in FOUNDERS:
        kubelet.start(seat)
    kubelet.ready(*FOUNDERS)
    equal(voters(kubelet), FOUNDERS, "voters")
    for seat in FOUNDERS:
        expect(kubelet.probe(seat, "startupProbe") and kubelet.probe(seat, "livenessProbe"), f"pod {seat} is not alive")
    return "3 pods"


def pod_with_another_address_is_found_again(kubelet: Kubelet) -> str:
    before = kubelet.running[2]
    kubelet.stop(2)
    after = kubelet.start(2)
    expect(before != after, "it has the same address")
    kubelet.ready(2)
    nodes = json.loads(kubelet.exec(1, "helve", "status", "--output", "json"))["nodes"]
    equal(sorted(node["health"] for node in nodes), ["ready"] * 3, "health")
    return f"{before} -> {after}"


def lost_majority_restarts_no_pod(kubelet: Kubelet) -> str:
    """The one that is left fails its readiness and keeps its liveness."""
    for seat in (2, 3):
        kubelet.stop(seat)
    until("the pod to be not ready", lambda: not kubelet.probe(1, "readinessProbe"))
    expect(kubelet.probe(1, "livenessProbe"), "liveness fails with the majority")
    for seat in (2, 3):
        kubelet.start(seat)
    kubelet.ready(*FOUNDERS)
    return "readiness alone"


class Minting(threading.Thread):
    """Mints handles one after the other through a pod that is not restarted, until it is told to end."""

    def __init__(self, kubelet: Kubelet, endpoints: str) -> None:
        super().__init__()
        self.kubelet, self.endpoints = kubelet, endpoints
        self.over = threading.Event()
        self.minted: list[str] = []
        self.failed: list[str] = []

    def run(self) -> None:
        while not self.over.is_set():
            command = ["helve", "handle", "mint", "--store", "cart", "--value", "{}", "--output", "json"]
            where = ["--endpoints", self.endpoints, "--token-file", TOKEN]
            try:
                self.minted.append(json.loads(self.kubelet.exec(1, *command, *where))["id"])
            except Exception as error:  # Counted, and shown by the check that waits for this thread.
                self.failed.append(str(error))


def rolling_restart_loses_no_call(kubelet: Kubelet) -> str:
    """Each pod but the caller's own is replaced, the leader among them, while handles are minted."""
    kubelet.exec(1, "helve", "token", "create", "--tenant", "default", "--role", "writer", "--name", "cart", "--out", TOKEN)
    hand_over(kubelet, 3)
    others = ",".join(f"helve-{seat}.helve-peers:7400" for seat in (3, 2, 1))
    callers = [Minting(kubelet, others) for _ in range(CALLERS)]
    for caller in callers:
        caller.start()
    try:
        for seat in (3, 2):
            before = [len(caller.minted) for caller in callers]
            kubelet.stop(seat)
            kubelet.start(seat)
            kubelet.ready(seat)
            until(
                "each caller's calls after the restart",
                lambda: all(len(caller.minted) > were + 1 or caller.failed for caller, were in zip(callers, before)),
            )
    finally:
        for caller in callers:
            caller.over.set()
            caller.join()
    failed = [why for caller in callers for why in caller.failed]
    expect(not failed, f"{len(failed)} failed; the first: {failed[:1]}")
    made = sum(len(caller.minted) for caller in callers)
    equal(live(kubelet), made, "handles")
    return f"{made} calls"


class Operator:
    """Types the commands of a page's section on Kubernetes, where the pods of a test take the place of a cluster."""

    def __init__(self, kubelet: Kubelet, page: str) -> None:
        self.kubelet = kubelet
        text = (PAGES / page).read_text().replace("\\\n", "")
        section = re.search(r"^## On Kubernetes\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
        expect(section is not None, f"{page} has no section on Kubernetes")
        self.commands = [shlex.split(line.strip()[2:]) for line in section.group(1).splitlines() if line.strip().startswith("$ ")]
        self.objects = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", section.group(1), re.DOTALL)]
        wrong = [problem for each in self.objects for problem in problems(each)]
        expect(not wrong, f"{page}: {wrong}")
        # Claims that are deleted while a pod has them go with the pod.
        self.deleted: set[int] = set()

    def types_all(self) -> None:
        expect(len(self.commands) > 1, "the page names no commands")
        for command in self.commands:
            expect(command[:3] == ["kubectl", "--namespace", "helve"], f"not for kubectl: {command}")
            self.types(command[3:])

    def types(self, command: list[str]) -> None:
        kubelet = self.kubelet
        match command:
            case ["scale", "statefulset", "helve", "--replicas", number]:
                self.scale(int(number))
            case ["exec", pod, "--", *words]:
                kubelet.exec(seat_of(pod), *words)
            case ["delete", "pvc", claim, "--wait=false"]:
                self.deleted.add(seat_of(claim))
            case ["delete", "pvc", *claims]:
                for claim in claims:
                    kubelet.forget(seat_of(claim))
            case ["delete", "pod", pod, "--force"]:
                kubelet.kill(seat_of(pod))
                if seat_of(pod) in self.deleted:
                    kubelet.forget(seat_of(pod))
                kubelet.start(seat_of(pod))
            case ["apply", "--filename", _]:
                expect("new cluster" in kubelet.run_once(self.objects[0]), "no new cluster was made")
            case ["logs", "--follow", "helve-recover"] | ["delete", "pod", "helve-recover"]:
                pass  # It was waited for, and removed, where it ran.
            case ["rollout", "status", "statefulset/helve"]:
                kubelet.ready(*kubelet.running)
            case _:
                expect(False, f"the page names a command that the test does not know: {' '.join(command)}")

    def scale(self, replicas: int) -> None:
        running = len(self.kubelet.running)
        for seat in range(running + 1, replicas + 1):
            self.kubelet.start(seat)
        for seat in range(running, replicas, -1):
            self.kubelet.stop(seat)


def cluster_grows_by_the_documented_commands(kubelet: Kubelet) -> str:
    Operator(kubelet, "grow.md").types_all()
    equal(voters(kubelet), [1, 2, 3, 4, 5], "voters")
    kubelet.ready(1, 2, 3, 4, 5)
    return "5 voters"


def cluster_shrinks_by_the_documented_commands(kubelet: Kubelet) -> str:
    Operator(kubelet, "shrink.md").types_all()
    equal(voters(kubelet), FOUNDERS, "voters")
    kubelet.ready(*FOUNDERS)
    equal(sorted(kubelet.running), FOUNDERS, "pods")
    return "3 voters"


def lost_disk_is_replaced_by_the_documented_commands(kubelet: Kubelet) -> str:
    before = {member["id"] for member in members(kubelet)}
    Operator(kubelet, "node-gone.md").types_all()
    kubelet.ready(*FOUNDERS)
    equal(voters(kubelet), FOUNDERS, "voters")
    new = {member["id"] for member in members(kubelet)} - before
    equal(len(new), 1, "nodes with a new id")
    return f"node {new.pop()} took seat 3 over"


def lost_majority_is_recovered_by_the_documented_commands(kubelet: Kubelet) -> str:
    """Every handle that the survivor held is there afterwards."""
    before = live(kubelet)
    expect(before > 0, "there is nothing to keep")
    Operator(kubelet, "lost-majority.md").types_all()
    equal(voters(kubelet), FOUNDERS, "voters")
    equal(live(kubelet), before, "handles")
    return f"{before} handles kept"


# In this order: each begins where the one before has ended.
CHECKS = [
    pods_found_their_cluster,
    pod_with_another_address_is_found_again,
    lost_majority_restarts_no_pod,
    rolling_restart_loses_no_call,
    cluster_grows_by_the_documented_commands,
    cluster_shrinks_by_the_documented_commands,
    lost_disk_is_replaced_by_the_documented_commands,
    lost_majority_is_recovered_by_the_documented_commands,
]
