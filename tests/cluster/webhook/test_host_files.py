"""The readers of hosts' files see what a hostile name would add; the test of admitted Fabrics relies on it."""

from __future__ import annotations

import pytest

from tests.cluster.webhook.host_files import check_host_files
from tests.fabric.plan.test_node_check import FULL
from trackbed.fabric.model.load import load_fabric
from trackbed.fabric.plan.compute import compute_plan
from trackbed.fabric.plan.plan import NodePlan
from trackbed.host.kinds import file
from trackbed.host.render import FORMATS
from trackbed.host.steps import iter_settings

PLAN = compute_plan(load_fabric(FULL, "fabric.yaml").fabric, {})
HOSTILE = ("x\ntouch", "$(touch)", '";touch;"', "a b", "`touch`")
ESCAPED = (".yaml", ".json")
"""Files in which any name has one meaning."""


def files(node: NodePlan) -> dict[str, str]:
    """All files of a host, also those of each network manager."""
    wanted = [setting.want for setting in iter_settings(node)]
    made = {want.path: want.content for want in wanted if isinstance(want, file.Want)}
    return {**made, **{path: text for render in FORMATS.values() for path, text in render(node).items()}}


def test_the_files_of_a_sound_plan_are_read() -> None:
    check_host_files(PLAN.nodes[0], files(PLAN.nodes[0]))


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_seen_in_every_file(name: str) -> None:
    sound = PLAN.nodes[0]
    port, *ports = sound.ports
    node = sound._replace(ports=(port._replace(netdev=name), *ports))
    count = 0
    for path, text in files(node).items():
        if name in text and not path.endswith(ESCAPED):
            with pytest.raises((AssertionError, ValueError)):
                check_host_files(sound, {path: text})
            count += 1
    assert count > 5
