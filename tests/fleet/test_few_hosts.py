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
    said = four.trackbed("diff", "--nodes", "gpu[004,001-003]", "--fanout", "1").stdout.splitlines()
    assert [line.split()[1] for line in said[:4]] == ["gpu001:", "gpu002:", "gpu003:", "gpu004:"]
