"""Four hosts behind a real sshd."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fleet.site import Site, site

pytestmark = pytest.mark.needs("root", "nsenter", "unshare", "ssh")


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site(tmp_path_factory.mktemp("four"), 4, {}) as made:
        yield made


def test_hosts_differ_are_applied_and_are_as_planned(four: Site) -> None:
    assert four.trackbed("diff", "--nodes", "gpu[001-004]").returncode == 1
    done = four.trackbed("apply", "--nodes", "gpu[001-004]", "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert four.trackbed("diff", "--nodes", "gpu[001-004]").returncode == 0


def test_hosts_have_their_turn_in_order(four: Site) -> None:
    lines = four.trackbed("diff", "--nodes", "gpu[004,001-003]", "--fanout", "1").stdout.splitlines()
    assert [line.split()[1] for line in lines[:4]] == ["gpu001:", "gpu002:", "gpu003:", "gpu004:"]


def test_hosts_are_undone_over_ssh_once_and_all_alike(four: Site) -> None:
    assert four.trackbed("apply", "--nodes", "gpu[001-002]", "--yes").returncode == 0
    done = four.trackbed("apply", "--nodes", "gpu[001-002]", "--undo", "--yes")
    lines = sorted(line.partition("] ")[2] for line in done.stdout.splitlines()[:2])
    assert lines == [f"gpu00{number}: the state before the last apply is restored" for number in (1, 2)]
    assert (done.returncode, done.stdout.splitlines()[2]) == (0, "2 of 2 hosts are as before the last apply")
    assert "differs: gpu[001-002] (2)" in four.trackbed("diff", "--nodes", "gpu[001-002]").stderr
    done = four.trackbed("apply", "--nodes", "gpu[001-002]", "--undo", "--yes")
    assert (done.returncode, done.stdout.count("there is nothing to undo")) == (0, 2)


def test_an_undo_is_not_shown_beforehand(four: Site) -> None:
    done = four.trackbed("apply", "--nodes", "gpu001", "--undo", "--dry-run")
    assert (done.returncode, "leave --dry-run out" in done.stderr) == (2, True)
