"""What `.ci/run` and `.ci/nightly` share: every step runs, also after a failure; the end says what failed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.needs("processes")

STEPS = Path(__file__).parents[1] / ".ci" / "steps"
SCRIPT = """set -uo pipefail
. {steps}
step broken 60 sh -c 'echo why; exit 3'
step "two words" 60 echo done
finish
"""


def run(*chosen: str) -> tuple[int, list[str]]:
    """Run two steps, the first of which fails; return the exit status and the rows of the table."""
    ran = subprocess.run(
        ["bash", "-c", SCRIPT.format(steps=STEPS), "steps", *chosen],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.stderr == ""
    head, _, table = ran.stdout.partition("step                     result")
    assert ("== broken failed; its last lines:\nwhy" in head) is ("FAILED (3)" in table)
    return ran.returncode, [" ".join(row.split()[:-2]) for row in table.splitlines()[1:]]


@pytest.mark.parametrize(
    ("chosen", "status", "rows"),
    [
        pytest.param([], 1, ["broken FAILED (3)", "two words ok"], id="all"),
        pytest.param(["two words"], 0, ["two words ok"], id="one"),
        pytest.param(["two words", "broken"], 1, ["broken FAILED (3)", "two words ok"], id="both"),
        pytest.param(["two"], 1, ["two NO SUCH STEP"], id="none of that name"),
    ],
)
def test_all_steps_run_or_those_that_are_named(chosen: list[str], status: int, rows: list[str]) -> None:
    assert run(*chosen) == (status, rows)
