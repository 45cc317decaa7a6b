"""Logs of nccl-tests and of NCCL are read as their programs write them, with whatever stands around."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.prove.nccl.logs import (
    END,
    HEADER,
    HOSTS,
    SIZE,
    build_channel,
    build_ports,
    build_ranks,
    build_report,
    build_result,
)
from trackbed.prove.nccl_log import Channels, GpuRank, NcclLog, read_nccl_runs

LINES = ["# Collective test starting: all_reduce_perf", "# Using devices", *build_ranks(), "#", HEADER]


def read_nccl_log(content: bytes) -> NcclLog:
    [log] = read_nccl_runs(content)
    return log


@pytest.mark.parametrize("before", ["", "[1,0]<stdout>:", "2026-11-28T22:44:54.123456789Z "])
def test_ranks_and_results_are_read_behind_what_others_write_before_them(before: str) -> None:
    lines = [*LINES, build_result(0.002, SIZE // 2), build_result(0.004), END]
    log = read_nccl_log("\n".join(before + line for line in lines).encode())
    assert (log.program, log.wrong_values, log.failure) == ("all_reduce_perf", 0, "")
    assert (len(log.ranks), log.ranks[9]) == (16, GpuRank(0, HOSTS[1], 1, "0000:19:00"))
    assert [(result.size, result.seconds, result.wrong) for result in log.results] == [
        (SIZE // 2, 0.002, 0),
        (SIZE, 0.004, 0),
    ]


@pytest.mark.parametrize(
    ("line", "seconds", "wrong"),
    [
        pytest.param(build_result(0.004, root=""), 0.004, 0, id="no root"),
        pytest.param(build_result(0.004, wrong="N/A"), 0.004, 0, id="not compared"),
        pytest.param(build_result(0.004, wrong="2e-07", root=""), 0.004, 0, id="a deviation of old versions"),
        pytest.param(f"{build_result(0.004)}  2026-11-28 22:44:54", 0.004, 0, id="with the time"),
        pytest.param(
            f"{SIZE} 268435456 float sum -1  4000 1.0 1.0 0 3900 4100 4090 0.4  3990 1.0 1.0 7 3900 4100 4090 0.4",
            0.00399,
            7,
            id="with times of iterations",
        ),
    ],
)
def test_each_version_of_the_table_is_read(line: str, seconds: float, wrong: float) -> None:
    [result] = read_nccl_log(line.encode()).results
    assert result.seconds == pytest.approx(seconds)
    assert result.wrong == wrong


def test_versions_without_groups_have_one() -> None:
    log = read_nccl_log(b"#   Rank  1 Pid   2345 on    gpu0301 device  1 [0x3a] NVIDIA A100")
    assert log.ranks == (GpuRank(0, "gpu0301", 1, "0x3a"),)


def test_ports_channels_and_warnings_of_nccl_are_read() -> None:
    lines = [
        build_ports(HOSTS[0], ["mlx5_0:1/RoCE", "rail1:1/RoCE"]),
        build_channel(HOSTS[0], "IB/3/GDRDMA"),
        build_channel(HOSTS[0], "IB/3(2)/GDRDMA/Shared"),
        build_channel(HOSTS[0], "IB/3"),
        build_channel(HOSTS[1], "AWS Libfabric/0/GDRDMA"),
        f"{HOSTS[1]}:57:92 [3] NCCL INFO Channel 03/0 : 3[3] -> 4[4] via P2P/CUMEM",
        f"[2026-11-28 22:44:54] {HOSTS[1]}:57:92 [3] misc/socket.cc:1 NCCL WARN Connect failed",
    ]
    log = read_nccl_log("\n".join(lines).encode())
    assert log.ports == {HOSTS[0]: ("mlx5_0:1/RoCE", "rail1:1/RoCE")}
    assert log.channels == {
        Channels(HOSTS[0], "IB", is_direct=True): 2,
        Channels(HOSTS[0], "IB", is_direct=False): 1,
        Channels(HOSTS[1], "AWS Libfabric", is_direct=True): 1,
    }
    assert log.warnings == (f"{HOSTS[1]}: Connect failed",)


def test_a_report_tells_the_time_of_each_rail_by_its_slowest_process() -> None:
    seconds = {rail: 0.01 + rail / 1000 for rail in range(8)}
    [result] = read_nccl_log("\n".join([build_result(0.01), build_report(seconds)]).encode()).results
    assert result.group_seconds == pytest.approx(seconds)


def test_a_report_that_is_broken_or_of_another_kind_is_left_out() -> None:
    for text in (
        '{"version":',
        '{"version":"x"}',
        '{"version":3,"results":[{"size":"x"}]}',
        '{"version":' + "[" * 9999,
    ):
        [result] = read_nccl_log(f"{build_result(0.01)}\n{text}".encode()).results
        assert result.group_seconds == {}


@given(st.lists(st.sampled_from([*LINES, build_result(0.01), build_report(dict.fromkeys(range(8), 0.01))])), st.data())
def test_no_log_is_refused_whatever_is_cut_or_put_in(lines: list[str], data: st.DataObject) -> None:
    text = "\n".join(lines)
    start = data.draw(st.integers(0, len(text)))
    read_nccl_runs((text[:start] + data.draw(st.text()) + text[start + data.draw(st.integers(0, 40)) :]).encode())


@pytest.mark.parametrize("line", ["a" * 1_000_000, " " * 1_000_000, "1 " * 500_000, "Channel 1 : " * 80_000])
def test_long_lines_cost_little(line: str) -> None:
    assert read_nccl_log("\n".join([line] * 3).encode()).results == ()


@pytest.mark.parametrize("host", ["n\u0663", "n3\u200b", "a b"])
def test_a_name_that_no_host_can_have_is_no_rank(host: str) -> None:
    line = f"#  Rank  0 Group  0 Pid   1 on {host} device  0 [0000:1b:00] NVIDIA H100"
    assert read_nccl_log(line.encode()).ranks == ()


def test_lines_of_any_bytes_cost_a_time_that_grows_as_they_do() -> None:
    lines = [b"a" * 4095, b"h:1:1 [0] NCCL INFO " + b"Channel 0 : " * 150 + b" via NET/" * 250, b"\xff" * 4095]
    assert read_nccl_log(b"\n".join(lines * 200)).channels == {}


@pytest.mark.parametrize(
    ("header", "before"),
    [
        pytest.param("# Collective test starting: all_reduce_perf", [], id="the program"),
        pytest.param("# nThread 1 nGpus 1 minBytes 8388608 maxBytes 8589934592 step: 2(factor)", [], id="old versions"),
        pytest.param(build_ranks()[0], [END], id="the ranks alone"),
    ],
)
def test_a_second_header_begins_another_run(header: str, before: list[str]) -> None:
    first = [*build_ranks(), HEADER, build_result(0.004), *before]
    lines = [*first, header, *build_ranks(), HEADER, build_result(0.001, SIZE // 8), END]
    runs = read_nccl_runs("\n".join(lines).encode())
    assert [[result.size for result in run.results] for run in runs] == [[SIZE], [SIZE // 8]]
    assert [run.wrong_values for run in runs] == [0 if before else None, 0]


def test_the_end_of_a_test_is_read_as_it_says_it() -> None:
    failed = "w-1: Test NCCL failure common.cu:303 'remote process exited or there was a network error / '"
    lines = [*LINES, build_result(0.004), f"[1,9]<stdout>:{failed}", " .. w-1 pid 9: Test failure common.cu:88"]
    assert read_nccl_log("\n".join(lines).encode()).failure == failed
    assert read_nccl_log(b"# Out of bounds values : 3 FAILED").wrong_values == 3
