from pathlib import PurePosixPath
from typing import get_args

import pytest

from tests.host.export.fabrics import planned
from trackbed.host.export.files import OWN, list_files
from trackbed.host.formats import Format, choose_mode
from trackbed.host.kinds import file
from trackbed.host.render import render
from trackbed.host.steps import list_settings
from trackbed.host.transaction.files import OWN as NETWORK

NETWORKS = get_args(Format)


@pytest.mark.parametrize("network", NETWORKS)
def test_they_are_the_files_of_apply(network: Format) -> None:
    node = planned().nodes[1]
    steps = {s.want.path: (s.want.content, s.want.mode) for s in list_settings(node) if isinstance(s.want, file.Want)}
    wanted = {path: (content, choose_mode(path)) for path, content in render(node, network).items()} | steps
    assert {one.path: (one.content, one.mode) for one in list_files(node, network)} == wanted
    assert len(steps) == len(file.NAMES)


@pytest.mark.parametrize("network", NETWORKS)
def test_each_has_a_name_that_is_trackbeds_own(network: Format) -> None:
    paths = [PurePosixPath(one.path) for one in list_files(planned().nodes[0], network)]
    assert [path for path in paths if not any(path.match(name) for name in OWN)] == []


def test_names_are_those_that_apply_may_write() -> None:
    assert set(OWN) == {f"{folder}/{pattern}" for folder, pattern in NETWORK} | {path for _, path in file.NAMES}


def test_a_fabric_that_asks_for_less_has_fewer_files() -> None:
    bare = {one.path for one in list_files(planned(more="").nodes[0], "netplan")}
    assert not bare & {"/etc/kubernetes/kubelet.conf.d/90-trackbed.conf"}
    assert "/etc/netplan/90-trackbed.yaml" in bare
