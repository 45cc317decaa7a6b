"""Files of a host that are written to do harm, as an archive may hold them: each is passed over, within bounds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from tests.doctor.host import sound_metal, sound_names, sound_rdma, sound_vfs, test_qos
from tests.doctor.host.changing import change_host
from tests.doctor.host.sound_services import build_services_view, change_files
from tests.examples import combine
from trackbed.doctor import checks
from trackbed.doctor.checks.cmdline import _parse_cpu_list
from trackbed.doctor.diagnosis import diagnose_nodes
from trackbed.doctor.finding import Finding
from trackbed.doctor.host_yaml import parse_host_yaml
from trackbed.doctor.unjudged import FAILED_CHECK
from trackbed.doctor.view import NodeView
from trackbed.host.runner import ProgramResult

SECONDS = 20.0


def _build_merge_bomb(levels: int) -> str:
    """Return YAML whose merge keys multiply by nine at each level."""
    lines = ["a0: &a0 {k: v}"]
    lines += [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}" for n in range(1, levels)]
    return "\n".join(lines)


HOSTILE = {
    "merge keys": _build_merge_bomb(12),
    "deep": "[" * 100_000,
    "no date": "a: 2001-99-99",
    "a number of 5,000 digits": f"a: {'9' * 5000}",
    "no number": "!!int x",
    "no time": "!!timestamp x",
    "a list": "[1]",
    "two documents": "a: 1\n---\nb: 2\n",
}
PATHS = ("/var/lib/kubelet/config.yaml", "/etc/netplan/50-cloud-init.yaml", "/etc/cdi/nvidia.yaml")


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_no_file_of_a_host_ends_or_delays_doctor(text: str) -> None:
    start = time.monotonic()
    assert diagnose_nodes([build_services_view(change_files(dict.fromkeys(PATHS, text)))]).findings
    assert time.monotonic() - start < SECONDS


def test_sound_files_are_read_with_their_types() -> None:
    assert parse_host_yaml("a: on\nb: [1, 2.5, 0x10]\nc: &c {d: ~}\ne: *c\n") == {
        "a": True,
        "b": [1, 2.5, 16],
        "c": {"d": None},
        "e": {"d": None},
    }
    assert [parse_host_yaml(text) for text in (None, "", "a: [")] == [None] * 3


def test_a_list_of_cpus_is_bounded() -> None:
    assert _parse_cpu_list("4-6,68") == {4, 5, 6, 68}
    assert len(_parse_cpu_list("0-99999999999," * 1000)) <= 100_000


GARBLED = ("", "-", "9" * 5000, "0x", "1.2.3", "\N{SUPERSCRIPT TWO}", "a b c\n: 1\n/ -> \n", "\0\x1b[31m")
"""What a file or a program may show instead of what it should."""


VIEWS: tuple[Callable[[], NodeView], ...] = (
    build_services_view,
    sound_metal.build_metal_view,
    lambda: sound_names.build_view(sound_names.compute_names_plan().nodes[0]),
    lambda: sound_rdma.build_view(sound_rdma.compute_rdma_plan().nodes[0]),
    lambda: sound_vfs.build_view(sound_vfs.compute_vfs_plan().nodes[0]),
    test_qos.build_view,
)


@pytest.mark.parametrize("build_view", VIEWS)
def test_every_check_understands_that_it_understands_nothing(build_view: Callable[[], NodeView]) -> None:
    view = build_view()
    assert view.host
    for path, text in combine(view.host.files, GARBLED):
        assert _list_failed_checks(change_host({path: text})(view)) == []
    for command, text in combine(view.host.outputs, GARBLED):
        assert _list_failed_checks(change_host(outputs={command: ProgramResult(0, text)})(view)) == []


def test_a_check_that_fails_ends_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(view: NodeView) -> Iterator[Finding]:
        raise ValueError(view)

    view = build_services_view()
    count = len({finding.id for finding in diagnose_nodes([view]).findings})
    monkeypatch.setattr(checks._LOADED["kubelet"], "check_host", lambda view, _: fail(view))  # noqa: SLF001 - a defect
    diagnosis = diagnose_nodes([view])
    (failed,) = (finding for finding in diagnosis.findings if finding.id == FAILED_CHECK.id)
    assert (failed.step, failed.verdict) == ("kubelet", "unknown")
    assert len({finding.id for finding in diagnosis.findings}) > count / 2


def _list_failed_checks(view: NodeView) -> list[str]:
    return [finding.evidence for finding in diagnose_nodes([view]).findings if finding.id == FAILED_CHECK.id]
