"""Apply makes what was shown; a host that has changed by then is shown again."""

from collections.abc import Callable, Iterator
from errno import EACCES
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tests.cli.test_host_commands import FABRIC, on
from tests.host.places import Host, host
from trackbed.cli import confirmed_apply
from trackbed.cli.main import cli
from trackbed.host.transaction.record import load_record
from trackbed.kernel.netlink.links import build_set_link, list_links

CHANGED = "gpu-1: the host has changed since its differences were shown; it differs now as follows:"
ARP_IGNORE, MTU = "net/ipv4/conf/rail0/arp_ignore", 1500


@pytest.fixture
def fabric(tmp_path: Path) -> str:
    path = tmp_path / "fabric.yaml"
    path.write_text(FABRIC.replace("{scheme: point-to-point}", "{scheme: point-to-point, ipv4: 172.20.0.0/16}"))
    return str(path)


@pytest.fixture
def place(tmp_path: Path, fabric: str) -> Iterator[Host]:
    """A host as planned, but for one kernel parameter."""
    with host(tmp_path) as made:
        assert on(made, "apply", fabric, "--yes").exit_code == 0
        made.machine.write_sysctl(ARP_IGNORE, "0")
        yield made


def shrink_mtu(place: Host) -> None:
    place.send(build_set_link(place.index("rail1"), mtu=MTU))


def read_mtu(place: Host) -> int:
    with place.machine.open_socket() as sock:
        return next(link.mtu for link in list_links(sock) if link.name == "rail1")


def react(monkeypatch: pytest.MonkeyPatch, *reactions: Callable[[], object]) -> list[str]:
    """Let these things happen, one at each question, before it is answered with yes; return the questions."""
    questions: list[str] = []
    pending = list(reactions)

    def answer(text: str) -> bool:
        questions.append(text)
        if pending:
            pending.pop(0)()
        return True

    monkeypatch.setattr(click, "confirm", answer)
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True)
    return questions


@pytest.mark.parametrize(
    ("words", "question"),
    [
        ((), "Apply to gpu-[0-1]? (--dry-run shows what differs)"),
        (("--undo",), "Undo the last apply on gpu-[0-1]?"),
    ],
    ids=["apply", "undo"],
)
def test_of_many_hosts_nothing_is_shown_and_the_question_says_what_would_be_done(
    monkeypatch: pytest.MonkeyPatch, fabric: str, words: tuple[str, ...], question: str
) -> None:
    questions: list[str] = []
    monkeypatch.setattr(click, "confirm", questions.append)
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True)
    done = CliRunner().invoke(cli, ["apply", "-f", fabric, "--nodes", "gpu-[0-1]", *words])
    assert (questions, done.exit_code) == ([question], 2)


def test_without_root_the_command_is_named_by_its_path(
    monkeypatch: pytest.MonkeyPatch, fabric: str, place: Host
) -> None:
    def refuse_lock(*_: object) -> None:
        raise PermissionError(EACCES, "Permission denied", "/var/lib/trackbed/lock")

    monkeypatch.setattr("trackbed.host.transaction.apply._hold_lock", refuse_lock)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr("sys.argv", ["/home/me/venv/bin/trackbed", "apply", "--undo"])
    reason = "cannot use /var/lib/trackbed/lock: Permission denied; run it as root: "
    command = "sudo /home/me/venv/bin/trackbed apply --undo\n"
    assert on(place, "apply", fabric, "--undo").stderr == f"trackbed: {reason}{command}"
    assert on(place, "apply", fabric, "--yes").stderr.endswith(f"trackbed: gpu-1: {reason}{command}")


def happen_after_preview(monkeypatch: pytest.MonkeyPatch, event: Callable[[], object]) -> None:
    """Let something happen between the first preview and the apply, with --yes."""
    show, events = confirmed_apply.show_differences, [event]

    def show_then(target: confirmed_apply.Target, *, dry_run: bool) -> object:
        shown = show(target, dry_run=dry_run)
        if events:
            events.pop()()
        return shown

    monkeypatch.setattr(confirmed_apply, "show_differences", show_then)
    monkeypatch.setattr("trackbed.cli.apply.show_differences", show_then)


def test_what_was_shown_is_applied_with_one_question(place: Host, fabric: str, monkeypatch: pytest.MonkeyPatch) -> None:
    questions = react(monkeypatch)
    done = on(place, "apply", fabric)
    assert (done.exit_code, questions) == (0, ["Apply these changes?"])
    assert CHANGED not in done.stderr
    assert place.machine.read_sysctl(ARP_IGNORE) == "1"


def test_a_host_that_changes_before_the_answer_is_shown_again(
    place: Host, fabric: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions = react(monkeypatch, lambda: shrink_mtu(place))
    done = on(place, "apply", fabric)
    assert (done.exit_code, len(questions)) == (0, 2)
    assert CHANGED in done.stderr
    first, second = done.stdout.split("gpu-1: 0 to add, 1 to change, 0 to remove")
    assert ("MTU of rail1" in first, "MTU of rail1" in second) == (False, True)
    assert on(place, "diff", fabric).exit_code == 0


def test_a_no_to_the_second_question_leaves_the_host_as_it_was(
    place: Host, fabric: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change_then_refuse() -> None:
        shrink_mtu(place)
        monkeypatch.setattr(click, "confirm", lambda _: False)

    react(monkeypatch, change_then_refuse)
    record = load_record(place.records)
    done = on(place, "apply", fabric)
    assert (done.exit_code, "nothing was changed" in done.stderr) == (2, True)
    assert (place.machine.read_sysctl(ARP_IGNORE), read_mtu(place)) == ("0", MTU)
    assert load_record(place.records) == record


def test_yes_refuses_what_was_not_shown(place: Host, fabric: str, monkeypatch: pytest.MonkeyPatch) -> None:
    happen_after_preview(monkeypatch, lambda: shrink_mtu(place))
    record = load_record(place.records)
    done = on(place, "apply", fabric, "--yes")
    assert done.exit_code == 1
    assert CHANGED in done.stderr
    assert "--yes confirms only the differences that were shown first; nothing was changed" in done.stderr
    assert (place.machine.read_sysctl(ARP_IGNORE), read_mtu(place)) == ("0", MTU)
    assert load_record(place.records) == record


def test_yes_goes_on_where_less_differs_than_was_shown(
    place: Host, fabric: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shrink_mtu(place)
    happen_after_preview(monkeypatch, lambda: place.machine.write_sysctl(ARP_IGNORE, "1"))
    done = on(place, "apply", fabric, "--yes")
    assert done.exit_code == 0
    assert CHANGED in done.stderr
    assert "made 1 change, " in done.stdout
    assert on(place, "diff", fabric).exit_code == 0


def test_a_file_that_changes_is_shown_again(place: Host, fabric: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = place.machine.root / "etc/systemd/network/10-trackbed-rail0.network"
    happen_after_preview(monkeypatch, lambda: path.write_text("of another\n"))
    done = on(place, "apply", fabric, "--yes")
    assert done.exit_code == 1
    assert "write /etc/systemd/network/10-trackbed-rail0.network" in done.stderr
    assert path.read_text() == "of another\n"


def test_a_host_that_always_changes_ends_the_questions(
    place: Host, fabric: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mtus = iter(range(MTU, MTU + 99))
    events = [lambda: place.send(build_set_link(place.index("rail1"), mtu=next(mtus)))] * 99
    questions = react(monkeypatch, *events)
    done = on(place, "apply", fabric)
    assert (done.exit_code, len(questions)) == (1, 5)
    assert "gpu-1: the host keeps changing; nothing was changed" in done.stderr
