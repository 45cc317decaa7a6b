"""Hosts that fail, each in its own way: each is told of in one line, and the rest are done."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.cli.json_page import check_document
from tests.fleet.site import Site, site

pytestmark = pytest.mark.needs("root", "nsenter", "unshare", "ssh")

WRONG = {2: "refused", 3: "hangs", 4: "full", 5: "no-python", 6: "dies"}
TOLD = {
    2: ("unreachable", "Connection refused; nothing was changed there; try: ssh gpu002 true"),
    3: ("timeout", "it did not answer in time; nothing was changed there; look at the host, or give it longer"),
    4: ("disk-full", "No space left on device"),
    5: ("no-python", "it has no Python, nothing was changed there; "),
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
    document = json.loads(done.stdout)
    check_document("apply --nodes gpu-[0-1]", document)
    return {outcome["node"]: outcome for outcome in document["nodes"]}


@pytest.mark.parametrize("number", WRONG, ids=list(WRONG.values()))
def test_a_host_that_fails_is_told_of_with_its_reason_and_the_next_step(
    ends: dict[str, dict[str, str]], number: int
) -> None:
    kind, message = TOLD[number]
    outcome = ends[f"gpu{number:03}"]
    assert (outcome["kind"], message in outcome["told"], "\n" in outcome["told"]) == (kind, True, False), outcome[
        "told"
    ]


def test_the_rest_is_done(ends: dict[str, dict[str, str]]) -> None:
    assert [ends[name]["kind"] for name in ("gpu001", "gpu007")] == ["applied", "applied"]


def test_a_host_that_ends_before_it_has_read_all_is_told_of_in_one_line(seven: Site) -> None:
    printed = seven.trackbed("diff", "--nodes", "gpu[002,005]").stderr.splitlines()
    assert sorted(line.partition(":")[0].partition("] ")[2] for line in printed[:2]) == ["gpu002", "gpu005"]
    assert printed[2:] == ["no-python: gpu005 (1)", "unreachable: gpu002 (1)"]


@pytest.mark.parametrize(("nodes", "status"), [("gpu002", 3), ("gpu[002,005]", 1)])
def test_hosts_that_cannot_be_reached_are_unknown_and_not_wrong(seven: Site, nodes: str, status: int) -> None:
    assert seven.trackbed("diff", "--nodes", nodes).returncode == status


def test_resume_passes_by_what_is_done_and_stops_after_a_failed_batch(seven: Site, ends: object) -> None:
    done = seven.trackbed("apply", *MANY, "--canary", "0", "--batch", "1", "--resume")
    assert ends
    assert done.returncode == 3
    assert "gpu001: done by an earlier run" in done.stdout
    assert "gpu007: done by an earlier run" in done.stdout
    lines = [line for line in done.stderr.splitlines() if "begun" in line]
    assert lines == [
        "not-begun: gpu[003-006] (4): not begun after a failed canary or too many failures; go on with --resume"
    ]
