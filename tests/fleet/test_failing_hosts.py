"""Hosts that fail, each in its own way: each is told of in one line, and the rest are done."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.fleet.site import Site, site

pytestmark = pytest.mark.needs("root", "nsenter", "unshare", "ssh")

WRONG = {2: "refused", 3: "hangs", 4: "full", 5: "no-python", 6: "dies"}
TOLD = {
    2: ("unreachable", "Connection refused; nothing was changed there; try: ssh HOST true"),
    3: ("timeout", "it did not answer in time; nothing was changed there; look at the host, or give it longer"),
    4: ("disk-full", "No space left on device"),
    5: ("no-python", "it has no python3, nothing was changed there; install python3 there"),
    6: ("died", "it died half-way (exit status 137); what it had changed by then is not known here"),
}
MANY = ("--nodes", "gpu[001-007]", "--timeout", "30", "--canary", "1", "--yes")


@pytest.fixture(scope="module")
def seven(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site(tmp_path_factory.mktemp("seven"), 7, WRONG) as made:
        yield made


@pytest.fixture(scope="module")
def ends(seven: Site) -> dict[str, dict[str, str]]:
    done = seven.trackbed("apply", *MANY, "--batch", "100%", "-o", "json")
    assert done.returncode == 1, done.stderr
    return {one["node"]: one for one in json.loads(done.stdout)["nodes"]}


@pytest.mark.parametrize("number", WRONG, ids=list(WRONG.values()))
def test_a_host_that_fails_is_told_of_with_its_reason_and_the_next_step(
    ends: dict[str, dict[str, str]], number: int
) -> None:
    kind, told = TOLD[number]
    one = ends[f"gpu{number:03}"]
    assert (one["kind"], told in one["told"], "\n" in one["told"]) == (kind, True, False), one["told"]


def test_the_rest_is_done(ends: dict[str, dict[str, str]]) -> None:
    assert [ends[name]["kind"] for name in ("gpu001", "gpu007")] == ["applied", "applied"]


def test_resume_passes_by_what_is_done_and_stops_after_a_failed_batch(seven: Site, ends: object) -> None:
    done = seven.trackbed("apply", *MANY, "--canary", "0", "--batch", "1", "--resume")
    assert ends
    assert done.returncode == 1
    assert "gpu001: done by an earlier run" in done.stdout
    assert "gpu007: done by an earlier run" in done.stdout
    assert "not-begun: gpu[003-006] (4)" in done.stderr
