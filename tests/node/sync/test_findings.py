"""Findings of doctor in a RailNode: what fails, when something changed, and never while the host is being changed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from tests.node.sync.test_preparer import kubeconfig, railnode
from tests.waiting import wait_for, wait_until
from trackbed.cluster.api import client as kube
from trackbed.cluster.api.client import Client
from trackbed.cluster.resources.conditions import find_condition
from trackbed.cluster.resources.railnode import HEALTHY, PATH, RailNodeSpec, RailNodeStatus
from trackbed.doctor.across.excerpt import HeldMac, NodeExcerpt
from trackbed.doctor.diagnosis import Diagnosis, select_finding_to_fix
from trackbed.doctor.finding import Finding, Verdict
from trackbed.fabric.plan.plan import NodePlan
from trackbed.node.sync import findings as node_findings
from trackbed.node.sync.doctor import Examination

__all__ = ["kubeconfig"]


def one(verdict: Verdict, rail: int | None = 3, because: str | None = None, **fields: str) -> Finding:
    texts = {"title": "it is there", "evidence": "nothing", "fix": "plug it in", **fields}
    finding = Finding("names-netdev-missing", "names", verdict, "", rail=rail, because=because)
    return msgspec.structs.replace(finding, **texts)


def diagnosis(*findings: Finding) -> Diagnosis:
    return Diagnosis(findings, select_finding_to_fix(findings))


def examination(*findings: Finding, **parts: Any) -> Examination:
    return Examination(diagnosis(*findings), NodeExcerpt("n0", **parts))


@pytest.mark.parametrize(
    ("diagnosed", "message"),
    [
        (diagnosis(one("pass"), one("warn"), one("unknown")), "True NothingFails "),
        (diagnosis(), "True NothingFails "),
        (
            diagnosis(one("fail", because="x"), one("fail", None, title="a"), one("pass")),
            "False Broken 2 failed: names-netdev-missing: host: a; nothing; plug it in",
        ),
    ],
)
def test_a_node_is_healthy_where_nothing_fails(diagnosed: Diagnosis, message: str) -> None:
    condition = node_findings.judge_health(diagnosed)
    assert f"{condition.status} {condition.reason} {condition.message}" == message


def test_findings_are_few_and_short_and_what_explains_others_comes_first() -> None:
    findings = node_findings.list_failures(
        diagnosis(*[one("fail", because="x", evidence="e" * 9999)] * 30, one("fail", 7))
    )
    assert len(findings) == 20
    assert (findings[0].subject, findings[1].subject) == ("rail 7", "rail 3")
    assert max(len(each.message) for each in findings) <= 512


def test_agents_that_start_together_look_at_moments_of_their_own() -> None:
    moments = Counter(int(node_findings.compute_first_delay(f"gpu-{number}")) // 60 for number in range(10_000))
    assert set(moments) == set(range(10))
    assert max(moments.values()) < 1500


class Told(msgspec.Struct):
    """A RailNode, as far as these tests read it."""

    metadata: dict[str, Any]
    spec: RailNodeSpec
    status: RailNodeStatus = RailNodeStatus()


def scene(
    kubeconfig: str,
    name: str,
    examine: node_findings.Examine,
    act: Callable[[Client, list[str]], Awaitable[None]],
    **spec: Any,
) -> None:
    """Run the telling of findings as fast as it goes, on what the server holds at each moment."""

    async def run() -> None:
        async with kube.connect(kubeconfig) as live:
            await railnode(live, name, **spec)
            held = await live.get(f"{PATH}/{name}", Told)
            trouble: list[str] = []

            def seen() -> tuple[RailNodeSpec, RailNodeStatus]:
                return held.spec, held.status

            work = asyncio.create_task(node_findings.publish_findings(live, name, seen, examine, trouble.append))
            try:
                await act(live, trouble)
            finally:
                work.cancel()
                await asyncio.gather(work, return_exceptions=True)

    asyncio.run(run())


async def _status(live: Client, name: str, status: str) -> RailNodeStatus:
    async def read() -> RailNodeStatus | None:
        current = (await live.get(f"{PATH}/{name}", Told)).status
        is_met = current.conditions and find_condition(current.conditions, HEALTHY).status == status
        return current if is_met else None

    result = await wait_for(read, f"condition {HEALTHY} of {name} is {status}")
    assert result is not None
    return result


@pytest.fixture(name="at_once")
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_findings, "SECONDS", 0.01)
    monkeypatch.setattr(node_findings, "compute_first_delay", lambda _: 0.0)


@pytest.mark.usefixtures("at_once")
def test_what_fails_is_told_and_gone_when_it_is_mended(kubeconfig: str) -> None:
    broken = [True]

    async def examine(node: NodePlan) -> Examination:
        assert node.ports
        return examination(one("fail")) if broken else examination(one("pass"))

    async def act(live: Client, _: list[str]) -> None:
        (finding,) = (await _status(live, "findings", "False")).findings
        assert (finding.code, finding.subject) == ("names-netdev-missing", "rail 3")
        broken.clear()
        assert (await _status(live, "findings", "True")).findings == ()

    scene(kubeconfig, "findings", examine, act, plan_hash="p1")


@pytest.mark.usefixtures("at_once")
def test_what_checks_between_nodes_need_is_reported_and_withdrawn_once_it_cannot_be_read(kubeconfig: str) -> None:
    readable = [True]

    async def examine(_: NodePlan) -> Examination:
        if not readable:
            raise OSError("nsenter cannot be started")
        return examination(macs=(HeldMac(1, "rail1", "02:00:00:00:00:01"),), driver="", cables=())

    async def act(live: Client, _: list[str]) -> None:
        report = (await _status(live, "reporting", "True")).report
        assert report == {"macs": [{"rail": 1, "mac": "02:00:00:00:00:01"}], "driver": "", "cables": []}
        readable.clear()
        assert (await _status(live, "reporting", "Unknown")).report is UNSET

    scene(kubeconfig, "reporting", examine, act, plan_hash="p1")


@pytest.mark.usefixtures("at_once")
def test_a_host_that_cannot_be_examined_is_unknown_and_says_why(kubeconfig: str) -> None:
    async def examine(_: NodePlan) -> Examination:
        raise OSError("nsenter cannot be started")

    async def act(live: Client, _: list[str]) -> None:
        status = await _status(live, "unexamined", "Unknown")
        assert find_condition(status.conditions, HEALTHY).message == "nsenter cannot be started"

    scene(kubeconfig, "unexamined", examine, act, plan_hash="p1")


@pytest.mark.usefixtures("at_once")
def test_a_host_that_is_being_changed_is_not_examined(kubeconfig: str) -> None:
    examined: list[str] = []

    async def examine(node: NodePlan) -> Examination:
        examined.append(node.name)
        return examination()

    async def act(live: Client, _: list[str]) -> None:
        for _again in range(20):
            await live.get(f"{PATH}/changing", Told)

    scene(kubeconfig, "changing", examine, act, plan_hash="p1", may_change=True)
    assert examined == []


def test_what_is_as_before_is_not_written_again(kubeconfig: str, monkeypatch: pytest.MonkeyPatch) -> None:
    writes: list[str] = []
    apply = Client.apply

    async def counted(self: Client, path: str, *arguments: Any, **options: Any) -> Any:
        writes.append(path)
        return await apply(self, path, *arguments, **options)

    async def examine(_: NodePlan) -> Examination:
        return examination(one("fail"), macs=(HeldMac(1, "rail1", "02:00:00:00:00:01"),))

    async def again(live: Client, name: str) -> None:
        rail_node = await live.get(f"{PATH}/{name}", Told)
        await node_findings._update_status(live, name, (rail_node.spec, rail_node.status), examine)  # noqa: SLF001 - one turn of an endless loop

    async def run() -> None:
        async with kube.connect(kubeconfig) as live:
            await railnode(live, "same", plan_hash="p1")
            monkeypatch.setattr(Client, "apply", counted)
            await again(live, "same")
            await again(live, "same")

    asyncio.run(run())
    assert writes == [f"{PATH}/same/status"]


@pytest.mark.usefixtures("at_once")
def test_trouble_with_the_server_is_told(kubeconfig: str) -> None:
    async def examine(_: NodePlan) -> Examination:
        return examination()

    async def act(live: Client, trouble: list[str]) -> None:
        await _status(live, "deleted", "True")
        await live.delete(f"{PATH}/deleted")
        await asyncio.to_thread(wait_until, lambda: trouble, "trouble is told")
        assert trouble[0].startswith("findings are not published: ")

    scene(kubeconfig, "deleted", examine, act, plan_hash="p1")
