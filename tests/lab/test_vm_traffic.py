"""Tests between the pods of emulated servers: pairs that fail start again with a new server, their words are kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import pytest
from trackbed_lab.vm import pods, traffic
from trackbed_lab.vm.channel import Channel, CommandResult

from tests.lab.fabrics import P2P, planned

FIGURES = b" 65536      20               9.80               9.61\n-----\n"
REFUSED = b"---\nCouldn't connect to 10.0.0.2:18516\n---\n"
SERVERS = traffic.Servers(Channel("node-0", 1, ""), Channel("node-1", 2, ""))
PAIRS = traffic.pair_same_rails(planned(P2P))[:2]
Commands = Counter[tuple[str, str]]


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, list[bytes]]], Commands]:
    """Return a function that sets what the client of each netdev prints, round by round, and counts the commands."""

    def play(outputs: dict[str, list[bytes]]) -> Commands:
        counts: Commands = Counter()

        def execute(channel: Channel, argv: Sequence[str], _: float) -> CommandResult:
            netdev = next((name for name in outputs if f"exec {name} " in argv[-1]), "")
            kind = "server" if "setsid" in argv[-1] else "client" if netdev else argv[-1]
            counts[kind, netdev if kind == "client" else channel.name] += 1
            if kind == "client":
                return CommandResult(0, outputs[netdev].pop(0), b"")
            return CommandResult(0, b"waits for a client\n" if kind.startswith("cat") else b"", b"")

        monkeypatch.setattr(traffic, "execute_command", execute)
        return counts

    return play


def test_only_the_pair_that_fails_starts_again_and_is_named(
    commands: Callable[[dict[str, list[bytes]]], Commands],
) -> None:
    counts = commands({"rail0": [FIGURES], "rail1": [REFUSED, FIGURES]})
    summary, good = traffic.check_rdma(SERVERS, PAIRS, routed=True)
    assert (summary, good) == ("2 of 2 pairs, 2 planned; 9.6 to 9.6 MB/s each; rail1 to rail1 in round 2", True)
    assert [counts["client", "rail0"], counts["client", "rail1"], counts["server", "node-1"]] == [1, 2, 2]


def test_servers_end_between_rounds(commands: Callable[[dict[str, list[bytes]]], Commands]) -> None:
    counts = commands({"rail0": [FIGURES], "rail1": [REFUSED, REFUSED, FIGURES]})
    traffic.check_rdma(SERVERS, PAIRS, routed=True)
    assert counts[pods.STOP_SERVERS, "node-1"] == 3


def test_a_pair_that_never_succeeds_is_named_with_the_last_words_of_both_ends(
    commands: Callable[[dict[str, list[bytes]]], Commands],
) -> None:
    commands({"rail0": [FIGURES], "rail1": [REFUSED] * traffic.ROUNDS})
    words = "rail1 to rail1: Couldn't connect to 10.0.0.2:18516 (its server: waits for a client)"
    summary, good = traffic.check_rdma(SERVERS, PAIRS, routed=True)
    assert (summary, good) == (f"1 of 2 pairs, 2 planned; 9.6 to 9.6 MB/s each; {words}", False)


def test_a_pair_that_the_plan_keeps_apart_is_tried_once(
    commands: Callable[[dict[str, list[bytes]]], Commands],
) -> None:
    cross = traffic.pair_cross_rails(planned(P2P))[:2]
    counts = commands({"rail0": [REFUSED], "rail1": [b""]})
    assert traffic.check_rdma(SERVERS, cross, routed=False) == ("0 of 2 pairs, 0 planned", True)
    assert counts["client", "rail0"] == 1


def test_a_pair_that_speaks_against_the_plan_is_no_success(
    commands: Callable[[dict[str, list[bytes]]], Commands],
) -> None:
    commands({"rail0": [FIGURES], "rail1": [b""]})
    assert not traffic.check_rdma(SERVERS, traffic.pair_cross_rails(planned(P2P))[:2], routed=False)[1]


def test_connections_by_the_rdma_cm_start_again_too(
    commands: Callable[[dict[str, list[bytes]]], Commands],
) -> None:
    commands({"rail0": [b"connected\n"], "rail1": [b"", b"", b"connected\n"]})
    assert traffic.check_cm(SERVERS, PAIRS) == ("rping over 2 of 2 rails; rail1 to rail1 in round 3", True)
