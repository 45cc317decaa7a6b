"""Facts of a port, as sysfs has them, and counters that rose, wrapped or started anew."""

from __future__ import annotations

import pytest

from trackbed.prove.facts import CounterChange, build_step, compare_counters, parse_facts
from trackbed.prove.rungs.rung import PathEnd

END = PathEnd("gpu1", 0, "eth0", "mlx5_0", "10.0.0.1")
PORT, DEVICE = "/sys/class/infiniband/mlx5_0/ports/1", "/sys/class/infiniband/mlx5_0/device"
FILES = {
    f"{PORT}/rate": "400 Gb/sec (4X NDR)",
    f"{DEVICE}/current_link_speed": "32.0 GT/s PCIe",
    f"{DEVICE}/current_link_width": "8",
    f"{PORT}/hw_counters/out_of_sequence": "12",
    f"{PORT}/counters/symbol_error": "N/A (no PMA)",
    "/sys/class/net/eth0/statistics/rx_dropped": "3",
}


def test_rate_pcie_and_counters_are_read() -> None:
    facts = parse_facts({"files": FILES, "missing": ["rping"]}, END, "ethernet")
    assert (facts.rate_gbps, round(facts.pcie_gbps or 0, 1)) == (400, 252.1)
    assert facts.counters == {"out_of_sequence": 12, "rx_dropped": 3}
    assert facts.missing_programs == {"rping"}


@pytest.mark.parametrize(
    ("speed", "rate"),
    [("200000", 200.0), ("-1", None), ("0", None), ("fast", None), ("٤", None)],
    ids=["Mb/s", "down", "zero", "a word", "another script's digit"],
)
def test_the_interface_tells_the_rate_where_the_rdma_device_does_not(speed: str, rate: float | None) -> None:
    facts = parse_facts({"files": {"/sys/class/net/eth0/speed": speed}}, END, "ethernet")
    assert facts.rate_gbps == rate


@pytest.mark.parametrize("rate", ["0.0000001", "0", "6401", "9" * 400])
def test_a_rate_that_no_link_has_is_no_rate(rate: str) -> None:
    answer = {"files": {f"{PORT}/rate": f"{rate} Gb/sec (4X NDR)"}}
    assert parse_facts(answer, END, "ethernet").rate_gbps is None


@pytest.mark.parametrize("output", [None, [], {"files": 1}, {"files": {1: 2}}, {"missing": {"a": 1}}])
def test_an_answer_of_another_form_has_no_facts(output: object) -> None:
    facts = parse_facts(output, END, "ethernet")
    assert (facts.rate_gbps, facts.pcie_gbps, facts.counters, facts.gid.is_unknown) == (None, None, {}, True)


def test_the_step_names_only_what_is_parsed() -> None:
    step = build_step(END)
    assert set(FILES) <= set(step["files"])
    assert step["programs"] == ["ib_write_bw", "ib_write_lat", "rping"]


@pytest.mark.parametrize(
    ("before", "after", "delta"),
    [(5, 12, 7), ((1 << 32) - 2, 3, 5), (1 << 40, 3, None), (3_000_000_000, 5, 1294967301), (100, 5, None)],
    ids=["rose", "wrapped at 32 bits", "started anew", "wrapped far", "cleared"],
)
def test_the_change_of_a_counter_is_told(before: int, after: int, delta: int | None) -> None:
    changes = compare_counters({"out_of_buffer": before}, {"out_of_buffer": after})
    assert changes == [CounterChange("out_of_buffer", "drops", delta)]


def test_counters_that_did_not_change_or_were_read_once_are_not_told() -> None:
    assert compare_counters({"out_of_buffer": 5, "symbol_error": 1}, {"out_of_buffer": 5, "link_downed": 9}) == []
