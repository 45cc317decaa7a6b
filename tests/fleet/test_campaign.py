"""Reboots of a campaign, batch by batch; the hosts answer from a script instead of over SSH."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.host.steps.fabrics import P2P, node_plan
from trackbed.fleet import campaign
from trackbed.fleet.campaign import Campaign, apply_all
from trackbed.fleet.log import open_log
from trackbed.fleet.order import Order
from trackbed.fleet.outcome import Outcome
from trackbed.fleet.run import SshOptions
from trackbed.fleet.task import HostTask

NAMES = ("n1", "n2", "n3", "n4")
WAITS = {"changes": [{"what": "kernel arguments", "reboot": True}]}


@dataclass
class Hosts:
    """Hosts that are away for two questions when they reboot; `stuck` never come back, `bent` differ afterwards."""

    stuck: frozenset[str] = frozenset()
    bent: frozenset[str] = frozenset()
    requests: list[tuple[str, str]] = field(default_factory=list)
    away: dict[str, int] = field(default_factory=dict)

    def run(self, tasks: Iterable[HostTask], transport: SshOptions, report: Callable[[Outcome], None]) -> None:
        """In the place of fleet.run.run_tasks."""
        assert transport.fanout
        for task in tasks:
            self.requests.append((task.verb, task.name))
            report(self._answered(task.verb, task.name))

    def _answered(self, verb: str, name: str) -> Outcome:
        if verb == "apply":
            return Outcome(name, "applied", "2 changes made", WAITS)
        if verb == "reboot":
            self.away[name] = 2
            return Outcome(name, "same", "", {"boot": "first"})
        if verb == "diff":
            return Outcome(name, "differs" if name in self.bent else "same", "1 differences; apply")
        self.away[name] -= name not in self.stuck
        return Outcome(name, "unreachable", "") if self.away[name] > 0 else Outcome(name, "same", "", {"boot": "next"})


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign, "_PAUSE_SECONDS", 0)


def done(hosts: Hosts, folder: Path, monkeypatch: pytest.MonkeyPatch, order: Order) -> dict[str, tuple[str, str]]:
    """Apply with reboots; kind and words of each host."""
    monkeypatch.setattr(campaign, "run_tasks", hosts.run)
    node = node_plan(P2P, '["b8:3f:d2:00:00:00", "b8:3f:d2:00:00:01"]')
    outcomes: dict[str, tuple[str, str]] = {}
    with open_log(folder / "log", resume=False) as log:
        nodes = {name: node._replace(name=name) for name in NAMES}
        work = Campaign(nodes, SshOptions(), order, reboot=True)
        apply_all(work, log, lambda outcome: outcomes.update({outcome.node: (outcome.kind, outcome.message)}))
    return outcomes


def test_a_batch_is_back_and_as_planned_before_the_next_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = Hosts()
    outcomes = done(hosts, tmp_path, monkeypatch, Order("2"))
    assert set(outcomes.values()) == {("applied", "changes made, rebooted, as planned")}
    verbs = [(verb, name) for verb, name in hosts.requests if verb != "boot"]
    assert verbs == [
        (verb, name)
        for pair in (NAMES[:2], NAMES[2:])
        for verb in ("apply", "reboot", "diff")
        for name in pair
    ]  # fmt: skip
    assert [hosts.requests.count(("boot", name)) for name in NAMES] == [2, 2, 2, 2]


def test_a_host_that_does_not_come_back_stops_what_follows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign, "REBOOT_SECONDS", 0.05)
    outcomes = done(Hosts(stuck=frozenset({"n1"})), tmp_path, monkeypatch, Order("2"))
    assert {name: kind for name, (kind, _) in outcomes.items()} == {
        "n1": "timeout", "n2": "applied", "n3": "not-begun", "n4": "not-begun",
    }  # fmt: skip
    assert "did not come back" in outcomes["n1"][1]


def test_a_host_that_differs_after_its_reboot_is_left_to_a_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes = done(Hosts(bent=frozenset({"n3"})), tmp_path, monkeypatch, Order("100%"))
    assert outcomes["n3"] == ("left", "after its reboot: 1 differences; see: trackbed diff --nodes")
    assert {outcomes[name][0] for name in ("n1", "n2", "n4")} == {"applied"}
