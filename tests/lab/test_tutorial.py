"""The figures that the tutorial prints are those that the programs give."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from trackbed_lab.lab import Lab

from tests.lab.sandboxes import in_sandbox
from trackbed.cli.import_ import import_folder

ROOT = Path(__file__).parents[2]
TUTORIAL = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")


@pytest.mark.needs("processes")
@pytest.mark.slow
def test_the_checks_are_counted(tmp_path: Path) -> None:
    def work() -> list[int]:
        lab = Lab(tmp_path)
        lab.build(import_folder(ROOT / "examples/spectrum-x-4")[0])
        lab.start_speaker()
        lab.apply()
        lab.start_agents()
        verdicts = [finding.verdict for finding in lab.diagnose().findings]
        return [verdicts.count("pass"), len(verdicts)]

    passed, checks = in_sandbox(tmp_path, work)
    assert passed == checks
    assert re.findall(r"(\d+) of (\d+) checks passed", TUTORIAL) == [
        (str(checks - 1), str(checks)),
        (str(checks), str(checks)),
    ]
