"""Hosts that answer to do harm: each ends as one outcome of its own, within bounds, and the others are done."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import NamedTuple

import pytest

import tests.fleet.site
from tests.fleet.site import Site, site

pytestmark = pytest.mark.needs("root", "nsenter", "unshare", "ssh")

MEMORY = 1 << 30
"""Largest address space of the control node's program; without hosts it takes some 200 MB."""
SECONDS = 10
"""--timeout; a host that neither ends nor answers is given up 30 s later."""


class Campaign(NamedTuple):
    """The outcomes of all hosts, the text that was printed, and the time that it took."""

    outcomes: dict[str, dict[str, object]]
    printed: str
    seconds: float


def _say(text: str) -> str:
    """Return a program that reads its input and then says one line; braces are those of str.format."""
    escaped = text.replace("{", "{{").replace("}", "}}")
    return f"#!/bin/sh\ncat > {{place}}/input\ncat <<'END'\ntrackbed began\ntrackbed {escaped}\nEND\n"


HOSTILE = {
    2: ("surrogate", _say(r'{"outcome": "failed", "message": "\ud800"}')),
    3: ("unknown kind", _say(r'{"outcome": "\u001b[2J\nall good"}')),
    4: ("escapes", _say(r'{"outcome": "failed", "message": "\u001b]0;owned\u0007\ngpu001: as planned\u009b2J"}')),
    5: ("misshapen", _say('{"outcome": "applied", "changes": [{"reboot": true}], "files": {"a": 1}}')),
    6: ("huge number", _say('{"outcome": "applied", "applied": 1' + "0" * 5000 + "}")),
    7: ("floods", "#!/bin/sh\ncat > {place}/input\necho trackbed began\nexec tr '\\0' x < /dev/zero\n"),
    8: ("floods its errors", "#!/bin/sh\ncat > {place}/input\necho trackbed began\nexec tr '\\0' x < /dev/zero >&2\n"),
    9: ("closes", "#!/bin/sh\ncat > {place}/input\necho trackbed began\nexec sleep 1000 >&- 2>&-\n"),
    10: ("many lines", "#!/bin/sh\ncat > {place}/input\nexec yes 'trackbed x'\n"),
    11: (
        "endless release",
        "#!/bin/sh\ncat > {place}/input\nprintf 'trackbed-python|ubuntu|%05000d|x|y\\n' 1\nexit 91\n",
    ),
}


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tests.fleet.site, "INSTEAD", dict(HOSTILE.values()))
        with site(tmp_path_factory.mktemp("hostile"), 12, {n: name for n, (name, _) in HOSTILE.items()}) as made:
            yield made


@pytest.fixture(scope="module")
def campaign(hosts: Site) -> Campaign:
    words = ["diff", "-f", "fabric.yaml", "--nodes", "gpu[001-012]", "--timeout", str(SECONDS), "-o", "json"]
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "trackbed", *words, "--ssh-config", str(hosts.folder / "ssh_config")],
        cwd=hosts.folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=240, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
    )  # fmt: skip
    seconds = time.monotonic() - start
    assert b"Traceback" not in done.stderr, done.stderr.decode(errors="replace")
    outcomes = {outcome["node"]: outcome for outcome in json.loads(done.stdout)["nodes"]}
    return Campaign(outcomes, done.stderr.decode(), seconds)


KINDS = {
    1: "differs",
    2: "failed",
    3: "garbled",
    4: "failed",
    5: "garbled",
    6: "garbled",
    7: "oversized",
    8: "oversized",
    9: "timeout",
    10: "oversized",
    11: "no-python",
    12: "differs",
}


@pytest.mark.parametrize("number", KINDS, ids=lambda number: HOSTILE.get(number, ("honest", ""))[0])
def test_a_host_has_an_outcome_of_its_own_whatever_it_sends(campaign: Campaign, number: int) -> None:
    outcome = campaign.outcomes[f"gpu{number:03}"]
    message = str(outcome["told"])
    assert (outcome["kind"], len(message) < 1100, "\n" in message) == (KINDS[number], True, False), message


def test_all_hosts_end_in_time(campaign: Campaign) -> None:
    assert len(campaign.outcomes) == len(KINDS)
    assert campaign.seconds < 3 * (SECONDS + 30)


def test_no_host_forges_a_line_of_another(campaign: Campaign) -> None:
    assert not [line for line in campaign.printed.splitlines() if line.startswith("gpu001")]
