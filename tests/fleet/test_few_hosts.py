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
