"""The leaves of emulated servers: rates, losses, MTUs, swapped cables and shared uplinks, on a clock of the test."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trackbed_lab.vm.forwarding import Forwarding, SendFrame
from trackbed_lab.vm.leaves import (
    QUEUE_BYTES,
    CablePort,
    LeafSettings,
    Leaves,
    PortSettings,
    SwitchSettings,
    name_port,
    read_settings,
    swap_cables,
    write_settings,
)
from trackbed_lab.vm.machine import LabShape, build_mac
from trackbed_lab.vm.router import Router

SHAPE = LabShape(
    servers=4, rails=2, leaves=[[f"leaf-u{server // 2}-r{rail}" for rail in (0, 1)] for server in range(4)]
)
"""Two servers at each leaf."""
GBPS, SIZE = 0.02, 4000
BYTES_PER_SECOND = GBPS * 1e9 / 8
Arrivals = list[tuple[CablePort, float]]


def build_frame(source: CablePort, target: CablePort | None, size: int = SIZE) -> bytes:
    """A frame between two ports; to everybody without a target."""
    return (_get_mac(target) if target else b"\xff" * 6) + _get_mac(source) + bytes(size - 12)


def _get_mac(port: CablePort) -> bytes:
    return bytes.fromhex(build_mac(*port).replace(":", ""))


def run_flows(settings: SwitchSettings, flows: Iterable[tuple[CablePort, CablePort]], seconds: float) -> Arrivals:
    """Let each flow send a frame as soon as its last one has arrived or is lost; return all arrivals by port."""
    now, arrivals = 0.0, Arrivals()

    def build_sender(port: CablePort) -> SendFrame:
        return lambda _: arrivals.append((port, now))

    ports = {CablePort(server, rail): build_sender(CablePort(server, rail)) for server in range(4) for rail in (0, 1)}
    forwarding = Forwarding(ports, Router([]), Leaves(SHAPE))
    for port in ports:
        forwarding.handle_frame(port, build_frame(port, None), now)  # the segments learn where everybody is
    forwarding.apply_settings(settings)
    for port in ports:
        forwarding.handle_frame(port, build_frame(port, None, 64), now)
    while (wait := forwarding.deliver_waiting(now)) is not None:
        now += wait
    start, arrivals[:] = now, []
    pending = [(now, number, flow) for number, flow in enumerate(flows)]
    while pending and pending[0][0] < start + seconds:
        now, number, (source, target) = heapq.heappop(pending)
        forwarding.deliver_waiting(now)
        forwarding.handle_frame(source, build_frame(source, target), now)
        heapq.heappush(pending, (now + SIZE / BYTES_PER_SECOND, number, (source, target)))
    now = start + seconds
    forwarding.deliver_waiting(now)
    return [(port, moment - start) for port, moment in arrivals]


def measure(arrivals: Arrivals, port: CablePort, seconds: float) -> float:
    """The share of the rate that arrived at a port."""
    return sum(SIZE for at, _ in arrivals if at == port) / (seconds * BYTES_PER_SECOND)


A0, B0, C0, D0 = (CablePort(server, 0) for server in range(4))
A1, B1 = CablePort(0, 1), CablePort(1, 1)


def test_without_settings_frames_pass_at_once() -> None:
    arrivals = run_flows(SwitchSettings(), [(A0, B0), (B0, A0)], 1.0)
    assert measure(arrivals, B0, 1.0) == pytest.approx(1, abs=0.01)
    assert {moment for _, moment in arrivals} == {moment for port, moment in arrivals if port == B0}


def test_a_port_passes_its_rate_in_each_direction_and_no_more() -> None:
    arrivals = run_flows(SwitchSettings(gbps=GBPS), [(A0, B0), (A0, B0), (B0, A0)], 1.0)
    assert measure(arrivals, B0, 1.0) == pytest.approx(1, abs=0.01)
    assert measure(arrivals, A0, 1.0) == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("slow", [A0, B0], ids=["the sender's", "the receiver's"])
def test_a_slow_port_slows_its_own_flows_alone(slow: CablePort) -> None:
    settings = SwitchSettings(gbps=GBPS, ports={name_port(f"node-{slow.server}", 0): PortSettings(rate_share=0.5)})
    arrivals = run_flows(settings, [(A0, B0), (B0, A0), (C0, D0), (A1, B1)], 1.0)
    shares = {port: round(measure(arrivals, port, 1.0), 2) for port in (A0, B0, D0, B1)}
    assert shares == {A0: 0.5, B0: 0.5, D0: 1.0, B1: 1.0}


@pytest.mark.parametrize("lossy", [A0, B0], ids=["the sender's", "the receiver's"])
def test_a_lossy_port_loses_a_share_of_frames(lossy: CablePort) -> None:
    settings = SwitchSettings(gbps=GBPS, ports={name_port(f"node-{lossy.server}", 0): PortSettings(loss=0.1)})
    arrivals = run_flows(settings, [(A0, B0), (C0, D0)], 3.0)
    assert 0.85 < measure(arrivals, B0, 3.0) < 0.95
    assert measure(arrivals, D0, 3.0) == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize(("mtu_bytes", "passes"), [(1500, False), (SIZE - 18, True), (SIZE - 19, False)])
def test_a_leaf_drops_frames_above_its_mtu(mtu_bytes: int, *, passes: bool) -> None:
    settings = SwitchSettings(leaves={"leaf-u1-r0": LeafSettings(mtu_bytes=mtu_bytes)})
    arrivals = run_flows(settings, [(A0, B0), (A0, C0), (C0, D0), (C0, A0)], 0.1)
    assert {port for port, _ in arrivals} == ({A0, B0, C0, D0} if passes else {B0})


def test_a_swapped_cable_ends_in_the_other_rails_leaf() -> None:
    arrivals = run_flows(swap_cables(SwitchSettings(), "node-0", 0, 1), [(A0, B0), (A1, B0), (B1, A0)], 0.1)
    flooded = {B1, CablePort(2, 1), CablePort(3, 1)}  # nobody at the leaf of rail 1 has the address of B0
    assert {port for port, _ in arrivals} == {A0, B0, *flooded}


def test_flows_between_leaves_share_a_slow_uplink() -> None:
    settings = SwitchSettings(gbps=GBPS, leaves={"leaf-u0-r0": LeafSettings(uplink_share=0.5)})
    arrivals = run_flows(settings, [(A0, C0), (B0, D0), (C0, D0), (A1, B1), (C0, A0)], 2.0)
    assert measure(arrivals, C0, 2.0) == pytest.approx(0.25, abs=0.02)
    assert measure(arrivals, B1, 2.0) == pytest.approx(1, abs=0.01)


def test_a_frame_for_all_takes_its_senders_port_once() -> None:
    leaves = Leaves(SHAPE, SwitchSettings(gbps=GBPS))
    arrivals: list[CablePort] = []
    ports = {port: (lambda _, port=port: arrivals.append(port)) for port in (A0, B0, C0, D0)}
    forwarding = Forwarding(ports, Router([]), leaves)
    forwarding.handle_frame(A0, build_frame(A0, None), 0.0)
    forwarding.deliver_waiting(SIZE / BYTES_PER_SECOND)
    assert arrivals == [B0, C0, D0]


def test_what_waits_for_a_link_is_limited() -> None:
    leaves = Leaves(SHAPE, SwitchSettings(gbps=GBPS))
    times = [leaves.enter(A0, SIZE, 0.0) for _ in range(QUEUE_BYTES // SIZE + 10)]
    assert times[-1] is None
    assert max(moment for moment in times if moment) == pytest.approx(QUEUE_BYTES / BYTES_PER_SECOND, rel=0.01)
    assert leaves.enter(A0, SIZE, 1.0) is not None


@given(st.lists(st.tuples(st.floats(0, 0.01), st.integers(60, 9000)), min_size=1, max_size=200))
def test_frames_of_a_flow_arrive_in_order_and_within_the_rate(frames: list[tuple[float, int]]) -> None:
    leaves, now, arrivals = Leaves(SHAPE, SwitchSettings(gbps=GBPS)), 0.0, []
    for pause, size in frames:
        now += pause
        arrivals.append((leaves.leave(A0, C0, size, now), now, size))
    moments = [moment for moment, _, _ in arrivals if moment is not None]
    assert moments == sorted(moments)
    assert all(moment >= sent + size / BYTES_PER_SECOND for moment, sent, size in arrivals if moment is not None)
    assert moments[-1] >= sum(size for moment, _, size in arrivals if moment is not None) / BYTES_PER_SECOND * 0.999


def test_settings_are_read_as_written_and_there_are_none_before(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    assert read_settings(tmp_path) == SwitchSettings()
    settings = SwitchSettings(
        gbps=1.0,
        ports={"node-0/1": PortSettings(loss=0.5)},
        leaves={"leaf-u1-r0": LeafSettings(mtu_bytes=1500)},
    )
    write_settings(tmp_path, settings)
    assert read_settings(tmp_path) == settings
    (tmp_path / "net/leaves.json").write_text("{")
    with pytest.raises(msgspec.DecodeError):
        read_settings(tmp_path)
