"""Probes are repeated before silence counts: one lost packet is no finding."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.doctor.test_checks import NODE, PLAN
from trackbed.doctor import probes
from trackbed.kernel.wire import arp, icmp, lldp
from trackbed.kernel.wire.errors import NotPermitted

NETNS = Path("/proc/self/ns/net")
PINGS = [icmp.Ping(1, 2), icmp.Ping(1, 3)]


class Network:
    """Answers each target from a given try on; keeps what was sent."""

    def __init__(self, first_answers: dict[int, int]) -> None:
        self.first_answers = first_answers
        self.rounds: list[list[int]] = []

    def ping(self, _: object, pings: Sequence[icmp.Ping], __: float) -> tuple[icmp.PingResult, ...]:
        """Stand in for icmp.ping."""
        self.rounds.append([ping.target for ping in pings])
        tries = len(self.rounds)
        return tuple(
            icmp.PingResult(ping, "answered" if tries >= self.first_answers.get(ping.target, 99) else "silent")
            for ping in pings
        )


def ping(monkeypatch: pytest.MonkeyPatch, network: Network) -> list[str]:
    monkeypatch.setattr(icmp, "ping", network.ping)
    return [result.outcome for result in probes.ping_patiently(NETNS, PINGS, 1.0)]


def test_only_what_stays_silent_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    network = Network({2: 1, 3: 2})
    assert ping(monkeypatch, network) == ["answered", "answered"]
    assert network.rounds == [[2, 3], [3]]


def test_a_target_that_never_answers_ends_as_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    network = Network({2: 1})
    assert ping(monkeypatch, network) == ["answered", "silent"]
    assert network.rounds == [[2, 3], [3], [3]]


@pytest.mark.parametrize(("error", "heard"), [(None, False), (NotPermitted("no CAP_NET_RAW"), None)])
def test_a_rail_that_could_not_listen_is_not_called_silent(
    monkeypatch: pytest.MonkeyPatch, error: Exception | None, heard: bool | None
) -> None:
    def listen(*_: object) -> lldp.Discovery:
        if error:
            raise error
        return lldp.Discovery({}, {})

    monkeypatch.setattr(lldp, "listen", listen)
    monkeypatch.setattr(icmp, "ping", Network({}).ping)
    monkeypatch.setattr(arp, "resolve", lambda *arguments: dict.fromkeys(arguments[3]))
    port = NODE.ports[0]
    sources = [probes.ProbeSource(port, NETNS, 1, port.addresses[0])]
    results = probes.probe_rails(PLAN, NODE, sources, probes.ProbeTimeouts(0.01, 31.0))
    assert results[port.rail].lldp_heard is heard
