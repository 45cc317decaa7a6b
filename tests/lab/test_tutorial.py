"""The figures that the tutorial and the README print are those that the programs give."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from trackbed_lab.faults import FAULTS
from trackbed_lab.lab import Lab

from tests.lab.sandboxes import in_sandbox
from trackbed.cli.import_ import import_folder
from trackbed.doctor.catalogue import load_catalogue

ROOT = Path(__file__).parents[2]
TUTORIAL = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_faults_are_counted() -> None:
    assert re.findall(r"(\d+) faults", TUTORIAL + README) == [str(len(load_catalogue()))] * 2
    assert re.findall(r"can inject (\d+) of them", TUTORIAL) == [str(len(FAULTS))]


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
