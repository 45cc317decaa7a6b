"""What a capture leaves out or blanks changes nothing that doctor says of a host."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.doctor.host.changing import change_host
from tests.doctor.host.sound_services import ARGS, CONFIG, KUBELET_CONFIG, PS, build_services_view
from tests.doctor.host.test_hostile_files import VIEWS
from trackbed.doctor.checks import run_checks
from trackbed.doctor.view import NodeView
from trackbed.host.kinds.file import KUBELET_DROP_IN
from trackbed.host.runner import ProgramResult
from trackbed.host.snapshot.capture import mask_snapshot

POLICY = "topologyManagerPolicy: restricted\n"


def build_view_with_drop_in() -> NodeView:
    """Return a view of a host whose planned policy is in kubelet's drop-in, as `trackbed apply` writes it."""
    change = change_host(
        {CONFIG: KUBELET_CONFIG.replace(POLICY, ""), KUBELET_DROP_IN: f"{POLICY}token: hunter2\n"},
        outputs={PS: ProgramResult(0, f"{ARGS} --config-dir=/etc/kubernetes/kubelet.conf.d\n")},
    )
    return change(build_services_view())


@pytest.mark.parametrize("build", [*VIEWS, build_view_with_drop_in])
def test_a_captured_host_is_judged_like_the_host_itself(build: Callable[[], NodeView]) -> None:
    view = build()
    assert view.host
    masked = mask_snapshot(view.host)
    assert b"hunter2" not in b"".join(masked.files.values())
    findings = list(run_checks(view))
    assert [finding for finding in findings if finding.step == "kubelet" and finding.verdict != "pass"] == []
    assert list(run_checks(replace(view, host=masked))) == findings
