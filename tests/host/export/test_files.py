from pathlib import PurePosixPath
from typing import get_args

import pytest

from tests.host.export.fabrics import planned
from trackbed.host.export.files import OWNED_PATHS, list_files
from trackbed.host.formats import Format, get_file_mode
from trackbed.host.kinds import file
from trackbed.host.render import FORMATS
from trackbed.host.steps import iter_settings

NETWORKS = get_args(Format)


@pytest.mark.parametrize("network", NETWORKS)
def test_they_are_the_files_of_apply(network: Format) -> None:
    node = planned().nodes[1]
    steps = {s.want.path: (s.want.content, s.want.mode) for s in iter_settings(node) if isinstance(s.want, file.Want)}
    wanted = {path: (content, get_file_mode(path)) for path, content in FORMATS[network](node).items()} | steps
    assert {file.path: (file.content, file.mode) for file in list_files(node, network)} == wanted
    assert len(steps) == len(file.NAMES)


@pytest.mark.parametrize("network", NETWORKS)
def test_each_has_a_name_that_is_trackbeds_own(network: Format) -> None:
    paths = [PurePosixPath(file.path) for file in list_files(planned().nodes[0], network)]
    assert [path for path in paths if not any(path.match(name) for name in OWNED_PATHS)] == []


def test_a_fabric_that_asks_for_less_has_fewer_files() -> None:
    bare = {file.path for file in list_files(planned(spec="").nodes[0], "netplan")}
    assert not bare & {"/etc/kubernetes/kubelet.conf.d/90-trackbed.conf"}
    assert "/etc/netplan/90-trackbed.yaml" in bare
