"""What a pod may have by the level of its namespace (Pod Security Standards)."""

from __future__ import annotations

import pytest

from tests.cluster.jobs.wanteds import PLAIN, WANTED, template
from trackbed.cluster.jobs.inject import inject
from trackbed.cluster.jobs.security import ENFORCE, Level, forbidden, level_of
from trackbed.cluster.stacks.access import Access, HostPath

LEVELS: dict[str, tuple[dict[str, str], Level]] = {
    "no label": ({}, "privileged"),
    "privileged": ({ENFORCE: "privileged"}, "privileged"),
    "baseline": ({ENFORCE: "baseline"}, "baseline"),
    "restricted": ({ENFORCE: "restricted"}, "restricted"),
    "misspelt": ({ENFORCE: "Privileged"}, "restricted"),
    "empty": ({ENFORCE: ""}, "restricted"),
}


@pytest.mark.parametrize(("labels", "level"), LEVELS.values(), ids=LEVELS)
def test_a_namespaces_label_says_its_level(labels: dict[str, str], level: Level) -> None:
    assert level_of(labels) == level


@pytest.mark.parametrize("level", ["baseline", "restricted"])
def test_what_a_level_forbids_is_not_added(level: Level) -> None:
    for wanted in (PLAIN, WANTED["host network"]):
        one = template()
        notes = inject(one, wanted, level=level)
        assert "securityContext" not in one["spec"]["containers"][0]
        [told] = [note for note in notes if note.code == "pod-memlock-without-ipc-lock"]
        assert (told.verdict, told.what) == (
            "different",
            f"Pod Security level {level} allows no IPC_LOCK, and it was left out",
        )


def test_what_the_user_has_is_not_spoken_of() -> None:
    one = template(securityContext={"capabilities": {"add": ["IPC_LOCK"]}})
    assert "pod-memlock-without-ipc-lock" not in {note.code for note in inject(one, PLAIN, level="baseline")}


NEEDS = {
    "nothing": (Access(), None),
    "everything": (
        Access(host_network=True, privileged=True, host_paths=(HostPath("ib", "/dev/infiniband", "/dev/infiniband"),)),
        "hostNetwork: true and privileged: true and the host's /dev/infiniband",
    ),
}


@pytest.mark.parametrize(("access", "needs"), NEEDS.values(), ids=NEEDS)
def test_a_stack_that_needs_more_than_a_level_allows_is_told(access: Access, needs: str | None) -> None:
    assert forbidden(access, "privileged") is None
    assert forbidden(access, "baseline") == forbidden(access, "restricted") == needs
