"""Whether a host is still booting, as systemd says it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from trackbed.host import booting
from trackbed.host.machine import Machine
from trackbed.host.runner import ProgramResult


@dataclass
class Systemd:
    """Answers as systemctl does."""

    answer: ProgramResult
    there: bool = True
    heard: list[str] = field(default_factory=list)

    def has_program(self, program: str) -> bool:
        """Whether there is a systemd at all."""
        return self.there and bool(program)

    def run(self, argv: Sequence[str]) -> ProgramResult:
        """The same answer to everything."""
        self.heard.append(" ".join(argv))
        return self.answer


@pytest.mark.parametrize(
    ("answer", "there", "still"),
    [
        pytest.param(ProgramResult(0, "163\n"), True, True, id="a job is queued or runs"),
        pytest.param(ProgramResult(0, "\n"), True, False, id="no job"),
        pytest.param(ProgramResult(0, "0\n"), True, False, id="no job, as older systemctl says it"),
        pytest.param(
            ProgramResult(1, "System has not been booted with systemd as init system"), True, False, id="no systemd"
        ),
        pytest.param(ProgramResult(0, "163\n"), False, False, id="no systemctl"),
    ],
)
def test_a_host_is_booting_while_its_unit_has_a_job(
    tmp_path: Path, answer: ProgramResult, *, there: bool, still: bool
) -> None:
    assert booting.is_boot_unit_pending(Machine(tmp_path, runner=Systemd(answer, there))) is still


def test_a_network_namespace_does_not_boot(place_netns: Path) -> None:
    systemd = Systemd(ProgramResult(0, "163\n"))
    assert not booting.is_boot_unit_pending(Machine(Path("/"), place_netns, systemd))
    assert systemd.heard == []


def test_waiting_joins_the_units_job_and_udev(tmp_path: Path) -> None:
    systemd = Systemd(ProgramResult(0, ""))
    booting.wait_for_boot_unit(Machine(tmp_path, runner=systemd))
    assert systemd.heard == ["systemctl start trackbed-boot.target", "udevadm settle --timeout=30"]


@pytest.fixture
def place_netns(tmp_path: Path) -> Path:
    """The path is never entered here."""
    return tmp_path / "netns"
