"""Stack native: what pods ask for, what the agent's pods may do, what is refused. Policies: test_native_rails."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.cluster.stacks.bundles import files
from tests.cluster.stacks.fabric_of import DIRECT, FLAT, NONE, fabric, one, problems
from tests.cluster.stacks.sites import INFINIBAND, VFS
from trackbed import __version__
from trackbed.cli.main import cli
from trackbed.cluster.jobs.requirements import build_requirements
from trackbed.cluster.stacks import stack
from trackbed.cluster.stacks.native.daemon import MOUNTS
from trackbed.cluster.stacks.releases import catalogue

NATIVE = stack("native")
SECURITY = Path(__file__).parents[3] / "docs" / "reference" / "agent-security.md"
MACVLAN, MOVE, SRIOV = ({"pods": {"mode": mode}} for mode in ("macvlan", "move", "sriov"))


def agent() -> dict[str, Any]:
    """The pod of the DaemonSet."""
    found: dict[str, Any] = one(NATIVE, fabric(addressing=FLAT), "DaemonSet")["spec"]["template"]["spec"]
    return found


def test_a_pod_asks_for_one_of_each_rail_and_for_nothing_else() -> None:
    found = build_requirements(NATIVE, fabric(3, addressing=FLAT))
    assert found.access.resources == tuple((f"trackbed.dev/rail{rail}", 1) for rail in range(3))
    assert (found.access.networks, found.access.claims, found.access.annotations) == ((), (), ())
    assert (found.access.privileged, found.access.host_network, found.access.host_paths) == (False, False, ())
    assert found.selector == ()


def test_lists_of_rdma_devices_are_left_to_cdi_which_knows_those_of_the_pod() -> None:
    names = dict(build_requirements(NATIVE, fabric(addressing=FLAT)).variables)
    assert not {"NCCL_IB_HCA", "UCX_NET_DEVICES"} & set(names)
    assert names["NCCL_SOCKET_IFNAME"] == "=eth0"


SOUND = {
    "macvlan": {"addressing": FLAT},
    "VFs": {"addressing": FLAT, **VFS},
    "VFs without addresses": {"addressing": NONE, **VFS},
    "VFs of InfiniBand": {"addressing": NONE, **VFS, **INFINIBAND},
    "ports": {"addressing": DIRECT},
    "ports of a subnet": {"addressing": FLAT, **MOVE},
    "ports of InfiniBand": {"addressing": NONE, **INFINIBAND, **MOVE},
    "its own names, written out": {"addressing": FLAT, "names": {"resource": "trackbed.dev/rail{rail}"}},
}
REFUSED = {
    "macvlan on InfiniBand": ({"addressing": NONE, **INFINIBAND, **MACVLAN}, "InfiniBand ports carry no macvlan"),
    "macvlan without addresses": ({"addressing": NONE, **MACVLAN}, "scheme none has no addresses"),
    "VFs that are none": ({"addressing": FLAT, **SRIOV}, "pods.mode sriov without VFs gives pods nothing"),
    "VFs on a /31": ({"addressing": DIRECT, **VFS, **SRIOV}, "the one address of a /31 is the port's"),
    "VFs without their addresses": ({"addressing": FLAT | {"podAddresses": 0}, **VFS}, "no address is left for pods"),
    "another prefix": (
        {"addressing": FLAT, "names": {"resource": "example.org/rail{rail}"}},
        "the agent offers rail 0 as trackbed.dev/rail0, not as example.org/rail0",
    ),
    "another number": (
        {"addressing": FLAT, "names": {"resource": "trackbed.dev/rail{number}"}},
        "the agent offers rail 0 as trackbed.dev/rail0, not as trackbed.dev/rail1",
    ),
}


@pytest.mark.parametrize("spec", SOUND.values(), ids=SOUND)
def test_what_the_agent_can_do_is_taken(spec: dict[str, Any]) -> None:
    assert problems(NATIVE, fabric(**spec)) == []


@pytest.mark.parametrize(("spec", "message"), REFUSED.values(), ids=REFUSED)
def test_what_it_cannot_do_is_refused_in_one_line(spec: dict[str, Any], message: str) -> None:
    (problem,) = problems(NATIVE, fabric(**spec))
    assert message in problem


def test_the_image_is_that_of_this_version() -> None:
    newest = catalogue()["trackbed"].releases[-1]
    assert (newest.version, newest.images["agent"]) == (__version__, f"ghcr.io/trackbed/agent:{__version__}")
    assert agent()["containers"][0]["image"] == newest.images["agent"]


def test_the_command_line_is_one_that_the_agent_takes() -> None:
    command = agent()["containers"][0]["command"]
    known = CliRunner().invoke(cli, [*command[1:3], "--help"]).output
    assert [word for word in command if word.startswith("--") and not re.search(rf"{word}\b", known)] == []


def test_every_path_of_the_command_line_is_mounted() -> None:
    words = [word for word in agent()["containers"][0]["command"] if word.startswith("/")]
    seen = [mount["mountPath"] for mount in agent()["containers"][0]["volumeMounts"]]
    inside = [
        word for word in words if any(f"{path}/".startswith(f"{word}/") or word.startswith(path) for path in seen)
    ]
    assert words == inside


def test_the_agent_may_do_three_things_and_has_no_token() -> None:
    context = agent()["containers"][0]["securityContext"]
    assert context["capabilities"] == {"drop": ["ALL"], "add": ["NET_ADMIN", "NET_RAW", "SYS_ADMIN"]}
    assert "privileged" not in context
    assert not context["allowPrivilegeEscalation"]
    assert context["readOnlyRootFilesystem"]
    assert agent()["automountServiceAccountToken"] is False
    kinds = [found["kind"] for stage in NATIVE.stages(fabric(addressing=FLAT)) for found in stage.objects]
    assert not [kind for kind in kinds if kind.endswith(("Role", "RoleBinding"))]


def test_the_page_on_security_has_a_row_for_each_mount_and_each_capability() -> None:
    rows = re.findall(r"^\| `([^`]+)`", SECURITY.read_text(), re.MULTILINE)
    added = agent()["containers"][0]["securityContext"]["capabilities"]["add"]
    assert rows == [*added, *(mount.path for mount in MOUNTS)]


def test_the_objects_grow_by_nothing_with_the_number_of_nodes() -> None:
    few, many = (one(NATIVE, fabric(8, nodes, addressing=FLAT), "DaemonSet") for nodes in (2, 400))
    assert few == many


def test_the_bundle_labels_no_nodes() -> None:
    found = files(NATIVE, fabric(addressing=FLAT))
    assert [name for name in found if name[0].isdigit()] == ["10-namespace.yaml", "20-agent.yaml", "30-annotation.yaml"]
    assert "labelled " not in found["install.sh"].partition("\nsay ")[2]
