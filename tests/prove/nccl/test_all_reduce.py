"""An all-reduce is judged by what its rails allow; which rail is slow, and whether NCCL used them."""

from __future__ import annotations

import pytest

from tests.prove.nccl.logs import (
    END,
    HEADER,
    HOSTS,
    RAILS,
    SIZE,
    build_channel,
    build_ports,
    build_ranks,
    build_report,
    build_result,
    compute_seconds,
)
from trackbed.fabric.model.fabric import Fabric
from trackbed.fabric.plan.compute import compute_plan
from trackbed.fabric.plan.plan import Plan
from trackbed.prove.all_reduce import AllReduceFinding, judge_runs
from trackbed.prove.nccl_log import read_nccl_runs

RATE = 400
PORTS = [f"mlx5_{rail}:1/RoCE" for rail in range(RAILS)]


def build_plan(rate: int | None = RATE, **others: object) -> Plan:
    spec = {
        "nodes": [{"hosts": "gpu-[0-3]", "server": "dgx-h100"}],
        "rails": RAILS,
        "addressing": {"scheme": "shared-subnet", "ipv4": "10.64.0.0/13"},
        **({"rate": rate} if rate else {}),
        **others,
    }
    document = {"apiVersion": "trackbed.dev/v1alpha1", "kind": "Fabric", "metadata": {"name": "f"}, "spec": spec}
    return compute_plan(Fabric.model_validate(document), {})


def judge(*lines: str, rate: int | None = RATE) -> list[AllReduceFinding]:
    """Judge a log that ends as that of a test which came to its end."""
    return judge_as_it_is(*lines, END, rate=rate)


def judge_as_it_is(*lines: str, rate: int | None = RATE) -> list[AllReduceFinding]:
    return judge_runs(build_plan(rate), read_nccl_runs("\n".join(lines).encode()))


def list_verdicts(findings: list[AllReduceFinding]) -> list[tuple[str, str]]:
    return [(finding.verdict, finding.subject) for finding in findings]


@pytest.mark.parametrize(
    ("share", "verdict"), [(0.98, "pass"), (0.92, "warn"), (0.5, "fail"), (1.4, "unknown"), (1.04, "pass")]
)
def test_the_bandwidth_of_all_rails_is_compared_with_their_rate(share: float, verdict: str) -> None:
    seconds = compute_seconds(share * RAILS * RATE, ranks=16)
    [finding] = judge(*build_ranks(), build_result(seconds * 3, SIZE // 2), build_result(seconds))
    assert (finding.verdict, finding.subject) == (verdict, "all rails")
    assert finding.gbps == pytest.approx(share * RAILS * RATE, rel=0.001)
    assert ("NCCL_ALGO=Ring" in finding.reason) == (verdict == "unknown")


def test_ranks_that_are_fewer_than_the_rails_load_as_many_of_them() -> None:
    seconds = compute_seconds(0.97 * RATE, ranks=2)
    assert list_verdicts(judge(*build_ranks(gpus=1), build_result(seconds))) == [("pass", "one rail")]


def test_a_slow_rail_is_named_by_its_own_time() -> None:
    seconds = {rail: compute_seconds((0.5 if rail == 3 else 0.97) * RATE, ranks=2) for rail in range(RAILS)}
    findings = judge(*build_ranks(by_rail=True), build_result(seconds[3]), build_report(seconds))
    assert [finding.subject for finding in findings] == [f"rail {rail}" for rail in range(RAILS)]
    assert [finding.subject for finding in findings if finding.verdict != "pass"] == ["rail 3"]


@pytest.mark.parametrize("devices", [[0] * RAILS, list(reversed(range(RAILS)))], ids=["one each", "in another order"])
def test_rails_are_named_by_the_addresses_of_gpus_whatever_cuda_visible_devices_says(devices: list[int]) -> None:
    seconds = {rail: compute_seconds((0.5 if rail == 3 else 0.97) * RATE, ranks=2) for rail in range(RAILS)}
    findings = judge(*build_ranks(by_rail=True, devices=devices), build_result(seconds[3]), build_report(seconds))
    assert [finding.subject for finding in findings if finding.verdict != "pass"] == ["rail 3"]


def test_amd_gpus_are_named_by_their_numbers() -> None:
    seconds = {rail: compute_seconds(0.97 * RATE, ranks=2) for rail in range(RAILS)}
    lines = [
        *build_ranks(by_rail=True, devices=[*range(7, -1, -1)]),
        build_result(seconds[3]),
        END,
        build_report(seconds),
    ]
    plan = build_plan(kubernetes={"gpuResource": "amd.com/gpu"})
    subjects = [finding.subject for finding in judge_runs(plan, read_nccl_runs("\n".join(lines).encode()))]
    assert subjects == [f"rail {rail}" for rail in reversed(range(RAILS))]


@pytest.mark.parametrize(
    "ranks",
    [
        pytest.param(build_ranks(by_rail=True, gpus=4), id="some of the GPUs"),
        pytest.param(
            [line.split("[")[0] for line in build_ranks(by_rail=True, devices=[0] * RAILS)], id="without addresses"
        ),
        pytest.param(
            [
                line.split("[")[0] if number % RAILS == 0 else line
                for number, line in enumerate(build_ranks(by_rail=True, devices=[0] * RAILS))
            ],
            id="one without an address",
        ),
    ],
)
def test_groups_whose_gpus_are_not_certain_are_no_rails(ranks: list[str]) -> None:
    seconds = {group: compute_seconds(0.97 * RATE, ranks=2) for group in range(RAILS)}
    subjects = [finding.subject for finding in judge(*ranks, build_result(seconds[3]), build_report(seconds))]
    assert subjects == [f"group {group}" for group in range(len(ranks) // 2)]


def test_a_rail_that_is_slower_than_the_others_is_low_even_within_the_bounds() -> None:
    seconds = {rail: compute_seconds((0.955 if rail == 3 else 1.0) * RATE, ranks=2) for rail in range(RAILS)}
    findings = judge(*build_ranks(by_rail=True), build_result(seconds[3]), build_report(seconds))
    assert [(finding.verdict, finding.subject) for finding in findings if finding.verdict != "pass"] == [
        ("warn", "rail 3")
    ]


def test_rails_without_times_of_their_own_are_judged_by_the_average() -> None:
    seconds = compute_seconds(0.97 * RATE, ranks=2)
    findings = judge(*build_ranks(by_rail=True), build_result(seconds))
    assert list_verdicts(findings) == [("pass", "each rail, on average")]


def test_a_job_on_one_host_and_a_fabric_without_a_rate_say_nothing_of_the_rails() -> None:
    [single] = judge(*build_ranks(HOSTS[:1]), build_result(0.01))
    assert (single.verdict, single.subject) == ("unknown", "all rails")
    [unstated] = judge(*build_ranks(), build_result(0.01), rate=None)
    assert (unstated.verdict, "spec.rate" in unstated.reason) == ("unknown", True)


@pytest.mark.parametrize(
    ("gpus", "ports", "share", "verdict"), [(8, 1, 0.97, "pass"), (8, 1, 0.5, "fail"), (4, 2, 0.97, "pass")]
)
def test_with_nvlink_off_one_host_has_the_bandwidth_of_its_slowest_rail(
    gpus: int, ports: int, share: float, verdict: str
) -> None:
    seconds = compute_seconds(share * ports * RATE, ranks=gpus)
    lines = [*build_ranks(HOSTS[:1], gpus=gpus), build_channel(HOSTS[0], "IB/3/GDRDMA"), build_result(seconds)]
    assert list_verdicts(judge(*lines)) == [(verdict, f"the slowest rail of {HOSTS[0]}")]


def test_wrong_sums_fail_whatever_the_bandwidth() -> None:
    seconds = compute_seconds(0.97 * RAILS * RATE, ranks=16)
    findings = judge(*build_ranks(), build_result(seconds, wrong="12"))
    assert list_verdicts(findings) == [("pass", "all rails"), ("fail", "sums")]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param([build_ports(host, PORTS) for host in HOSTS], [], id="as planned"),
        pytest.param([build_ports(HOSTS[1], PORTS[:7])], [("fail", HOSTS[1], "7 of 8")], id="one is not used"),
        pytest.param([build_ports(HOSTS[1], [*PORTS, "mlx5_9:1/RoCE"])], [("warn", HOSTS[1], "9")], id="one more"),
        pytest.param(
            [build_ports(HOSTS[1], [*PORTS[:7], "mlx5_9:1/IB"])], [("fail", HOSTS[1], "mlx5_9:1/IB")], id="InfiniBand"
        ),
        pytest.param(
            [build_channel(host, "Socket/0") for host in HOSTS],
            [("fail", "all-reduce-worker-[0-1]", "TCP")],
            id="TCP on both, told once",
        ),
        pytest.param([build_channel(HOSTS[0], "IB/3/GDRDMA")], [], id="to the GPU's memory"),
        pytest.param([build_channel(HOSTS[0], "IBext/3")], [("warn", HOSTS[0], "host memory")], id="by host memory"),
        pytest.param([build_channel(HOSTS[0], "AWS Libfabric/3")], [], id="another plugin"),
    ],
)
def test_ports_and_channels_of_hosts_are_judged(lines: list[str], expected: list[tuple[str, str, str]]) -> None:
    seconds = compute_seconds(0.97 * RAILS * RATE, ranks=16)
    _, *findings = judge(*build_ranks(), *lines, build_result(seconds))
    assert list_verdicts(findings) == [(verdict, subject) for verdict, subject, _ in expected]
    assert all(part in finding.reason for finding, (_, _, part) in zip(findings, expected, strict=True))


def test_a_log_without_results_has_no_findings() -> None:
    assert judge(*build_ranks(), build_ports(HOSTS[0], PORTS)) == []
    assert judge(build_result(0.01)) == []


SOUND = [*build_ranks(), HEADER, build_result(compute_seconds(0.97 * RAILS * RATE, ranks=16))]
WARNING = f"{HOSTS[1]}:57:92 [3] NCCL WARN NET/IB: Got completion with status=IBV_WC_RETRY_EXC_ERR(12)"


def test_a_test_that_crashed_after_good_sizes_fails_with_the_warnings_of_nccl() -> None:
    failed = f"{HOSTS[1]}: Test NCCL failure common.cu:303 'remote process exited / '"
    findings = judge_as_it_is(*SOUND, WARNING, failed)
    assert list_verdicts(findings) == [("pass", "all rails"), ("fail", "end of the test")]
    assert "IBV_WC_RETRY_EXC_ERR(12)" in findings[1].reason
    assert list_verdicts(judge_as_it_is(*build_ranks(), HEADER, failed)) == [("fail", "end of the test")]


def test_a_log_that_ends_before_its_test_is_unknown() -> None:
    findings = judge_as_it_is(*SOUND, WARNING)
    assert list_verdicts(findings) == [("pass", "all rails"), ("unknown", "end of the test")]
    assert findings[1].reason.startswith("the log ends before the test did")


def test_values_out_of_bounds_at_the_end_fail() -> None:
    findings = judge_as_it_is(*SOUND, "# Out of bounds values : 3 FAILED")
    assert list_verdicts(findings) == [("pass", "all rails"), ("fail", "sums")]


def test_each_run_of_a_log_is_judged_however_small_its_sizes() -> None:
    slow = build_result(compute_seconds(0.3 * RAILS * RATE, 16, 1 << 22), 1 << 22)
    findings = judge(*SOUND, END, *build_ranks(), HEADER, slow)
    assert list_verdicts(findings) == [("pass", "run 1: all rails"), ("fail", "run 2: all rails")]
    findings = judge_as_it_is(*SOUND, END, "# Collective test starting: all_reduce_perf", *build_ranks())
    assert list_verdicts(findings) == [("pass", "run 1: all rails"), ("unknown", "run 2: result")]
