"""`trackbed init --guided` on a real terminal: answers, wrong answers, Ctrl-C; the Fabric is one that `plan` takes."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from trackbed.cli.main import cli
from trackbed.fabric.model.load import load_fabric
from trackbed.fabric.plan.compute import compute_plan
from trackbed.fabric.plan.plan import Plan

pytestmark = pytest.mark.needs("processes")

PROGRAM = """
import fcntl, signal, termios
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from trackbed.cli.main import main
main()
"""
"""The command as a shell starts it: its terminal is that of its session, so Ctrl-C reaches it."""
CTRL_C = "\x03"
SECONDS = 30
HOSTS = "gpu-[0-63]"
SRIOV = ("train", "dgx-h100", "ethernet", HOSTS, "", "", "192.168.0.0/16", "sriov", "8", "", "")


def guide(folder: Path, text: str, leave_at: str = "") -> tuple[int, str]:
    """Run the command on a terminal, with the text typed; return its exit status and all that the terminal shows.

    With `leave_at`, Ctrl-C is pressed at that question.
    """
    here, there = pty.openpty()
    command = [sys.executable, "-c", PROGRAM, "init", "--guided"]
    with subprocess.Popen(
        command, cwd=folder, stdin=there, stdout=there, stderr=there, start_new_session=True
    ) as running:
        os.close(there)
        shown = read_until(here, "name [")
        os.write(here, text.encode())
        if leave_at:
            shown += read_until(here, leave_at) + press_ctrl_c(here)
        shown += read_until(here)
        try:
            running.wait(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            running.kill()
    os.close(here)
    return running.returncode, shown.replace("\r\n", "\n")


def press_ctrl_c(terminal: int) -> str:
    """Press Ctrl-C until the terminal shows more, as a user does; return what it shows.

    A signal between Python's prompt and its read(2) ends no read (PyOS_StdioReadline), so one press may do nothing.
    """
    shown = ""
    for _ in range(6):
        os.write(terminal, CTRL_C.encode())
        shown += read_until(terminal, seconds=5)
        if shown.strip("^C\r\n"):
            break
    return shown


def read_until(terminal: int, mark: str | None = None, seconds: int = SECONDS) -> str:
    """Return what the terminal shows until the mark, until the command has ended, or for some seconds of silence."""
    shown = b""
    while mark is None or mark.encode() not in shown:
        if not select.select([terminal], [], [], seconds)[0]:
            break
        try:
            part = os.read(terminal, 65536)
        except OSError:
            break
        if not part:
            break
        shown += part
    return shown.decode()


def to_lines(answers: tuple[str, ...]) -> str:
    return "".join(f"{answer}\n" for answer in answers)


def read_plan(folder: Path) -> Plan:
    return compute_plan(load_fabric((folder / "fabric.yaml").read_bytes(), "fabric.yaml").fabric, {})


def test_sixty_four_servers_of_a_known_model_are_described_by_eleven_answers(tmp_path: Path) -> None:
    status, shown = guide(tmp_path, to_lines(SRIOV))
    assert status == 0, shown
    assert "  trackbed plan -f fabric.yaml\n" in shown
    plan = read_plan(tmp_path)
    assert (plan.common.nodes, len(plan.common.rails), plan.common.pod_mode, plan.common.vfs) == (64, 8, "sriov", 8)
    assert CliRunner().invoke(cli, ["plan", "-f", str(tmp_path / "fabric.yaml")]).exit_code == 0


def test_management_and_storage_nics_are_no_rails(tmp_path: Path) -> None:
    ports = "0000:18:00.0,0000:2a:00.0,0000:3a:00.0"
    answers = ("train", ports, "ethernet", "gpu-[0-3]", "0000:05:00.0", "0000:3a:00.0", "none", "move", "", "")
    status, shown = guide(tmp_path, to_lines(answers))
    assert status == 0, shown
    assert "0000:3a:00.0 is taken out of the rails: 2 remain" in shown
    plan = read_plan(tmp_path)
    assert [port.pci for port in plan.nodes[0].ports] == ["0000:18:00.0", "0000:2a:00.0"]
    assert (plan.common.pod_mode, plan.common.scheme) == ("move", "point-to-point")
    text = (tmp_path / "fabric.yaml").read_text()
    assert '# no rail: "0000:05:00.0", management\n' in text
    assert '# no rail: "0000:3a:00.0", storage\n' in text


def test_ports_that_are_not_published_are_written_behind_the_servers_name(tmp_path: Path) -> None:
    server = "dell-xe9680-mi300x"
    typed = f"{server} 0000:18:00.0,0000:2a:00.0"
    answers = ("train", server, typed, "ethernet", "gpu-[0-3]", "none", "none", "none", "move", "", "")
    status, shown = guide(tmp_path, to_lines(answers))
    assert status == 0, shown
    assert f"as {server} 0000:18:00.0" in " ".join(shown.split())
    assert [port.pci for port in read_plan(tmp_path).nodes[0].ports] == ["0000:18:00.0", "0000:2a:00.0"]
    assert read_plan(tmp_path).kubernetes.gpu_resource == "amd.com/gpu"


WRONG = {
    "name": (("Train!", *SRIOV), "a name has lower case letters"),
    "server": ((SRIOV[0], "dgx-h10", *SRIOV[1:]), "did you mean 'dgx-h100'?"),
    "hosts": ((*SRIOV[:3], "gpu-[0-", *SRIOV[3:]), "'gpu-[0-' is no host range"),
    "PCI address": ((*SRIOV[:4], "18:00.0", *SRIOV[4:]), "a PCI address has a domain"),
    "mode": ((*SRIOV[:7], "vfs", *SRIOV[7:]), "there are move, sriov, macvlan"),
    "VFs": ((*SRIOV[:8], "many", *SRIOV[8:]), "write a number, 1 or more"),
    "range in use": ((*SRIOV[:9], "192.168.0.0/17", *SRIOV[9:]), "node range 192.168.0.0/16 overlaps"),
    "range too small": ((*SRIOV[:9], "10.0.0.0/24", *SRIOV[9:]), "has room for 0 nodes, 64 are wanted"),
    "stack": ((*SRIOV[:10], "dranet", *SRIOV[10:]), "DRANET moves the ports themselves into pods"),
}


@pytest.mark.parametrize(("answers", "explanation"), WRONG.values(), ids=WRONG)
def test_a_wrong_answer_is_explained_and_asked_again(
    tmp_path: Path, answers: tuple[str, ...], explanation: str
) -> None:
    status, shown = guide(tmp_path, to_lines(answers))
    assert status == 0, shown
    assert explanation in shown
    assert read_plan(tmp_path).common.nodes == 64


def test_wrong_answers_end_after_some_and_leave_nothing(tmp_path: Path) -> None:
    status, shown = guide(tmp_path, to_lines(("Train!",) * 9))
    assert status == 2
    assert "5 answers for 'name' did not fit; nothing was written" in shown
    assert list(tmp_path.iterdir()) == []


QUESTIONS = {1: "hardware [", 4: "management NIC [", 10: "stack ["}


@pytest.mark.parametrize("answers", QUESTIONS)
def test_ctrl_c_leaves_nothing(tmp_path: Path, answers: int) -> None:
    status, shown = guide(tmp_path, to_lines(SRIOV[:answers]), leave_at=QUESTIONS[answers])
    assert (status, list(tmp_path.iterdir())) == (130, []), shown


def test_a_file_that_exists_is_refused_before_the_first_question(tmp_path: Path) -> None:
    (tmp_path / "fabric.yaml").write_text("mine\n")
    result = CliRunner().invoke(cli, ["init", "--guided", "--to", str(tmp_path / "fabric.yaml")])
    assert result.exit_code == 2
    assert "exists and is not overwritten" in result.output
    assert (tmp_path / "fabric.yaml").read_text() == "mine\n"
