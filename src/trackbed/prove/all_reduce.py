"""Whether an all-reduce reached what its rails allow, over which ports, and which rail was slow; from its log.

The bus bandwidth of n ranks is 2 (n - 1) / n times bytes over time (nccl-tests, doc/PERFORMANCE.md): the load of each
NIC in a ring, whatever n. Verdicts are those of `findings.judge`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from statistics import median
from typing import Final, NamedTuple

from trackbed.fabric.host_ranges import fold_hosts
from trackbed.fabric.plan.plan import Plan
from trackbed.prove.findings import MOST_FRACTION, Measurement, ProofVerdict, judge
from trackbed.prove.nccl_log import AllReduce, GpuRank, NcclLog

_LEAST_OF_CLASS: Final = 3
"""Rails from which they have a median."""
_LINKS: Final = {"ethernet": "RoCE", "infiniband": "IB"}
_TWO: Final = "take two nodes or more, or `job new --no-nvlink --nccl NCCL_DEBUG=INFO`"
_RING: Final = (
    "NCCL's trees load the NICs with less than this counts, between two nodes above all: measure with NCCL_ALGO=Ring"
)


class AllReduceFinding(NamedTuple):
    """A verdict on a part of an all-reduce."""

    verdict: ProofVerdict
    subject: str
    """What is judged: all rails, a rail, or a host."""
    reason: str
    gbps: float | None = None
    """Bus bandwidth in Gb/s; None where none is judged."""


def judge_runs(plan: Plan, runs: Sequence[NcclLog]) -> list[AllReduceFinding]:
    """Return the findings on all runs of a log, whose nodes have the rails of the plan; empty if none has a result.

    Where there are several, the subject of a finding names its run, and a run without a result is unknown.
    """
    by_run = [judge_all_reduce(plan, run) for run in runs]
    if len(by_run) == 1 or not any(by_run):
        return by_run[0]
    unread = AllReduceFinding("unknown", "result", "it has no result: the log ends before it, or lacks its ranks")
    return [
        finding._replace(subject=f"run {number}: {finding.subject}")
        for number, findings in enumerate(by_run, start=1)
        for finding in findings or [unread]
    ]


def judge_all_reduce(plan: Plan, log: NcclLog) -> list[AllReduceFinding]:
    """Return the findings on a run, whose nodes have the rails of the plan; empty if it has no result."""
    if not log.results or not log.ranks:
        return list(_judge_failure(log))
    of_hosts = [*_judge_ports(plan, log), *_judge_channels(log)]
    return [*_judge_bandwidth(plan, log), *_judge_sums(log), *_judge_end(log), *_fold_hosts(of_hosts)]


def _judge_failure(log: NcclLog) -> Iterator[AllReduceFinding]:
    """Judge a test that says itself that it failed."""
    if log.failure:
        yield AllReduceFinding("fail", "end of the test", f"{log.failure}{_quote_warnings(log)}")


def _judge_end(log: NcclLog) -> Iterator[AllReduceFinding]:
    """Judge whether the test came to its end: one that crashed has sound results of smaller sizes."""
    if log.failure:
        yield from _judge_failure(log)
    elif log.wrong_values is None:
        lack = "the log ends before the test did: it has no line `# Out of bounds values`"
        remedy = f"give the whole log, or measure again{_quote_warnings(log)}"
        yield AllReduceFinding("unknown", "end of the test", f"{lack}; {remedy}")


def _quote_warnings(log: NcclLog) -> str:
    return f". NCCL warned: {'; '.join(log.warnings)}" if log.warnings else ""


def _judge_bandwidth(plan: Plan, log: NcclLog) -> Iterator[AllReduceFinding]:
    """Judge the bandwidth of the largest size: of each rail where each has a group of ranks, or else of all."""
    largest, rails = log.results[-1], _name_groups(plan, log)
    hosts = Counter(rank.host for rank in log.ranks)
    if len(hosts) == 1:
        yield _judge_one_host(plan, log, next(iter(hosts)), largest)
    elif len(rails) > 1 and largest.group_seconds:
        yield from _judge_rails(plan, log, rails, largest)
    else:
        ranks = len(log.ranks) // len(rails)
        width = 1 if len(rails) > 1 else min(len(plan.common.rails), max(hosts.values()))
        subject = "each rail, on average" if len(rails) > 1 else "all rails" if width > 1 else "one rail"
        gbps = _compute_bandwidth(largest.size, largest.seconds, ranks)
        yield _judge_value(subject, gbps, _compute_rate(plan, width), largest.size)


def _judge_one_host(plan: Plan, log: NcclLog, host: str, largest: AllReduce) -> AllReduceFinding:
    """Judge an all-reduce on one host, where channels through NICs show that NVLink was off.

    Each GPU then hands on the whole ring by its own NIC: the bandwidth is that of the slowest rail, not of all.
    """
    if not log.channels:
        reason = f"all ranks were on {host}, and no channel through a NIC is seen: nothing is said of the rails; {_TWO}"
        return AllReduceFinding("unknown", "all rails", reason)
    gbps = _compute_bandwidth(largest.size, largest.seconds, len(log.ranks))
    rate = _compute_rate(plan, len(plan.common.rails) / len(log.ranks))
    return _judge_value(f"the slowest rail of {host}", gbps, rate, largest.size)


def _judge_rails(plan: Plan, log: NcclLog, rails: Mapping[int, str], largest: AllReduce) -> Iterator[AllReduceFinding]:
    members = Counter(rank.group for rank in log.ranks)
    values = {
        group: _compute_bandwidth(largest.size, seconds, members[group])
        for group, seconds in largest.group_seconds.items()
        if members[group] > 1
    }
    rate = _compute_rate(plan, 1)
    usual = median(values.values()) / rate if rate and len(values) >= _LEAST_OF_CLASS else None
    for group, name in rails.items():
        if group in values:
            yield _judge_value(name, values[group], rate, largest.size, usual)
        else:
            yield AllReduceFinding("not-tested", name, "the log has no times of it")


def _name_groups(plan: Plan, log: NcclLog) -> Mapping[int, str]:
    """Return what the groups of ranks reduce over: the rail whose GPU all its ranks have, if that is certain."""
    layout = _map_gpus(plan)
    by_address = all(resource.startswith("nvidia.com/") for resource in plan.list_gpu_resources())
    ranks_of_hosts: dict[str, list[GpuRank]] = defaultdict(list)
    for rank in log.ranks:
        ranks_of_hosts[rank.host].append(rank)
    rails: dict[int, set[int | None]] = defaultdict(set)
    for ranks in ranks_of_hosts.values():
        for rank, gpu in zip(ranks, _number_gpus(ranks, sorted(layout), by_address=by_address), strict=True):
            rails[rank.group].add(None if gpu is None else layout[gpu])
    return {group: _name_group(group, numbers) for group, numbers in sorted(rails.items())}


def _map_gpus(plan: Plan) -> Mapping[int, int]:
    """Return the rail of each GPU by its number; empty unless all nodes have the same, each rail with its own GPU."""
    layouts = {tuple((gpu, port.rail) for port in node.ports for gpu in port.gpus) for node in plan.nodes}
    pairs = next(iter(layouts)) if len(layouts) == 1 else ()
    layout = dict(pairs)
    return layout if len(layout) == len(set(layout.values())) == len(pairs) else {}


def _name_group(group: int, rails: Collection[int | None]) -> str:
    rail = next(iter(rails)) if len(rails) == 1 else None
    return f"group {group}" if rail is None else f"rail {rail}"


def _number_gpus(ranks: Sequence[GpuRank], planned: Sequence[int], *, by_address: bool) -> Sequence[int | None]:
    """Return the plan's number of each rank's GPU; None where the ranks of the host do not have all planned ones.

    CUDA numbers what CUDA_VISIBLE_DEVICES lets a process see, often one device 0 each, and the plan numbers NVIDIA's
    GPUs by PCI address. AMD's are numbered by HIP in both.
    """
    addresses = [rank.address for rank in ranks]
    keys = addresses if by_address and all(addresses) else [f"{rank.gpu:03}" for rank in ranks]
    ordered = sorted(set(keys))
    if not len(ordered) == len(ranks) == len(planned):
        return [None] * len(ranks)
    return [planned[ordered.index(key)] for key in keys]


def _compute_bandwidth(size: int, seconds: float, ranks: int) -> float:
    """Return the bus bandwidth in Gb/s."""
    return 2 * (ranks - 1) / ranks * size * 8 / seconds / 1e9


def _compute_rate(plan: Plan, ports: float) -> float | None:
    """Return the rate of some ports in Gb/s, if the Fabric states it."""
    return ports * plan.rate_gbps if plan.rate_gbps else None


def _judge_value(
    subject: str, gbps: float, rate: float | None, size: int, usual: float | None = None
) -> AllReduceFinding:
    finding = judge(Measurement(gbps, rate), usual)
    reason = finding.reason
    value = f"{gbps:,.0f} Gb/s (busbw {gbps / 8:.4g} GB/s)"
    if rate is None:
        reason = f"{value}, and the Fabric states no rate to compare with: add spec.rate"
    elif gbps > MOST_FRACTION * rate:
        reason = f"{value} is more than the ports' {rate:,g} Gb/s. {_RING}"
    else:
        reason = f"{value} with {size:,} bytes: {reason}"
    return AllReduceFinding(finding.verdict, subject, reason, gbps)


def _judge_sums(log: NcclLog) -> Iterator[AllReduceFinding]:
    for result in log.results:
        if result.wrong:
            reason = f"{result.wrong:g} elements of {result.size:,} bytes were wrong: data is changed on its way"
            yield AllReduceFinding("fail", "sums", f"{reason}; measure each rail by itself (--by-rail)")
            return
    if log.wrong_values:
        yield AllReduceFinding("fail", "sums", f"the test counts {log.wrong_values} values out of bounds at its end")


def _judge_ports(plan: Plan, log: NcclLog) -> Iterator[AllReduceFinding]:
    """Judge the ports that NCCL uses on each host, where it says them."""
    count, link = len(plan.common.rails), _LINKS.get(plan.common.link_type, "")
    for host, ports in sorted(log.ports.items()):
        listed = ", ".join(ports)
        others = [port for port in ports if link and port.rpartition("/")[2] != link]
        if len(ports) < count:
            reason = (
                f"NCCL uses {len(ports)} of {count} ports: {listed}; compare with NCCL_IB_HCA and the pod's devices"
            )
            yield AllReduceFinding("fail", host, reason)
        elif others:
            yield AllReduceFinding("fail", host, f"NCCL uses {', '.join(others)}, and the rails are {link}")
        elif len(ports) > count:
            reason = (
                f"NCCL uses {len(ports)} ports, and {count} are rails: {listed}; set NCCL_IB_HCA to the rails' alone"
            )
            yield AllReduceFinding("warn", host, reason)


def _judge_channels(log: NcclLog) -> Iterator[AllReduceFinding]:
    """Judge over what the channels between hosts go, where NCCL says it."""
    for kind, count in sorted(log.channels.items()):
        if kind.network == "Socket":
            reason = (
                f"{count} channels go over TCP: NCCL has no RDMA device; its warnings, and `trackbed doctor`, say why"
            )
            yield AllReduceFinding("fail", kind.host, reason)
        elif kind.network.startswith("IB") and not kind.is_direct:
            reason = f"{count} channels go through host memory: neither DMA-BUF nor peer memory serves these GPUs"
            yield AllReduceFinding("warn", kind.host, f"{reason}, or they are too far from their NICs")


def _fold_hosts(findings: Sequence[AllReduceFinding]) -> Iterator[AllReduceFinding]:
    """Yield one finding for all hosts with the same verdict and reason."""
    hosts: dict[tuple[ProofVerdict, str], list[str]] = defaultdict(list)
    for finding in findings:
        hosts[finding.verdict, finding.reason].append(finding.subject)
    for (verdict, reason), names in hosts.items():
        yield AllReduceFinding(verdict, fold_hosts(names), reason)
