"""What a pod may have by the level of its namespace (Pod Security Standards)."""

from __future__ import annotations

import pytest

from tests.cluster.jobs.wanteds import PLAIN, WANTED, template
from trackbed.cluster.jobs.inject import inject_rails
from trackbed.cluster.jobs.security import ENFORCE_LABEL, PodSecurityLevel, describe_forbidden, read_pod_security_level
from trackbed.cluster.stacks.access import Access, HostPath

LEVELS: dict[str, tuple[dict[str, str], PodSecurityLevel]] = {
    "no label": ({}, "privileged"),
    "privileged": ({ENFORCE_LABEL: "privileged"}, "privileged"),
    "baseline": ({ENFORCE_LABEL: "baseline"}, "baseline"),
    "restricted": ({ENFORCE_LABEL: "restricted"}, "restricted"),
    "misspelt": ({ENFORCE_LABEL: "Privileged"}, "restricted"),
    "empty": ({ENFORCE_LABEL: ""}, "restricted"),
}


@pytest.mark.parametrize(("labels", "level"), LEVELS.values(), ids=LEVELS)
def test_a_namespaces_label_says_its_level(labels: dict[str, str], level: PodSecurityLevel) -> None:
    assert read_pod_security_level(labels) == level


@pytest.mark.parametrize("level", ["baseline", "restricted"])
def test_what_a_level_forbids_is_not_added(level: PodSecurityLevel) -> None:
    for wanted in (PLAIN, WANTED["host network"]):
        pod = template()
        notes = inject_rails(pod, wanted, pod_security_level=level)
        assert "securityContext" not in pod["spec"]["containers"][0]
        [message] = [note for note in notes if note.code == "ipc-lock-missing"]
        assert (message.verdict, message.difference) == (
            "different",
            f"Pod Security level {level} allows no IPC_LOCK, and it was left out",
        )


def test_what_the_user_has_is_not_spoken_of() -> None:
    pod = template(securityContext={"capabilities": {"add": ["IPC_LOCK"]}})
    assert "ipc-lock-missing" not in {note.code for note in inject_rails(pod, PLAIN, pod_security_level="baseline")}


NEEDS = {
    "nothing": (Access(), None),
    "everything": (
        Access(host_network=True, privileged=True, host_paths=(HostPath("ib", "/dev/infiniband", "/dev/infiniband"),)),
        "hostNetwork: true and privileged: true and the host's /dev/infiniband",
    ),
}


@pytest.mark.parametrize(("access", "needs"), NEEDS.values(), ids=NEEDS)
def test_a_stack_that_needs_more_than_a_level_allows_is_told(access: Access, needs: str | None) -> None:
    assert describe_forbidden(access, "privileged") is None
    assert describe_forbidden(access, "baseline") == describe_forbidden(access, "restricted") == needs
