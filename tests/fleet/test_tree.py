"""Hosts behind two gateways (ProxyJump): real sshds at both levels."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.cli.json_page import check_document
from tests.fleet.site import Site, site

pytestmark = pytest.mark.needs("root", "nsenter", "unshare", "ssh")

WRONG = {2: "refused", 3: "hangs", 4: "full", 5: "no-python", 6: "dies"}
KINDS = {2: "unreachable", 3: "timeout", 4: "disk-full", 5: "no-python", 6: "died"}
MANY = ("--nodes", "gpu[001-008]", "--timeout", "30", "--batch", "100%", "--yes", "-o", "json")


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site(tmp_path_factory.mktemp("behind"), 8, WRONG) as made:
        yield made


def test_through_gateways_every_host_is_done_or_told_of_with_its_reason(behind: Site) -> None:
    done = behind.trackbed("apply", *MANY, config="tree_config")
    assert done.returncode == 1, done.stderr
    kinds = {outcome["node"]: outcome["kind"] for outcome in json.loads(done.stdout)["nodes"]}
    wanted = {f"gpu{number:03}": KINDS.get(number, "applied") for number in range(1, 9)}
    assert kinds == wanted, done.stderr


def test_hosts_behind_a_lost_gateway_are_told_of(behind: Site) -> None:
    lost = (behind.folder / "tree_config").read_text().replace("ProxyJump gate2", "ProxyJump root@127.0.0.1:1")
    (behind.folder / "lost_config").write_text(lost)
    done = behind.trackbed("diff", "--nodes", "gpu[001,008]", "-o", "json", config="lost_config")
    check_document("diff --nodes gpu-[0-1]", json.loads(done.stdout))
    kinds = {outcome["node"]: outcome["kind"] for outcome in json.loads(done.stdout)["nodes"]}
    assert kinds == {"gpu001": "unreachable", "gpu008": "same"}, done.stderr
