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
from trackbed.cluster.stacks import load_stack
from trackbed.cluster.stacks.native.daemon import MOUNTS
from trackbed.cluster.stacks.releases import load_catalogue

NATIVE = load_stack("native")
SECURITY = Path(__file__).parents[3] / "docs" / "reference" / "agent-security.md"
MACVLAN, MOVE, SRIOV = ({"pods": {"mode": mode}} for mode in ("macvlan", "move", "sriov"))


def agent() -> dict[str, Any]:
    """The pod of the DaemonSet."""
    result: dict[str, Any] = one(NATIVE, fabric(addressing=FLAT), "DaemonSet")["spec"]["template"]["spec"]
    return result


def test_a_pod_asks_for_one_of_each_rail_and_for_nothing_else() -> None:
    result = build_requirements(NATIVE, fabric(3, addressing=FLAT))
    assert result.access.resources == tuple((f"trackbed.dev/rail{rail}", 1) for rail in range(3))
    assert (result.access.networks, result.access.claims, result.access.annotations) == ((), (), ())
    assert (result.access.privileged, result.access.host_network, result.access.host_paths) == (False, False, ())
    assert result.selector == ()


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
    "macvlan on InfiniBand": ({"addressing": FLAT, **INFINIBAND, **MACVLAN}, "InfiniBand ports carry no macvlan"),
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
    newest = load_catalogue()["trackbed"].releases[-1]
    assert (newest.version, newest.images["agent"]) == (__version__, f"localhost/trackbed/agent:{__version__}")
    assert agent()["containers"][0]["image"] == newest.images["agent"]


MINE: dict[str, Any] = {"kubernetes": {"images": {"agent": "registry.example:5000/agent:7"}}}


def test_an_image_that_no_registry_can_serve_is_warned_of_until_the_fabric_names_one() -> None:
    bare, named = fabric(addressing=FLAT), fabric(addressing=FLAT, **MINE)
    (warning,) = NATIVE.warnings(bare)
    assert str(warning) == (
        "warning: no registry has the agent's image localhost/trackbed/agent:0.1.0, so it must be on each node "
        "already: build it by `scripts/image --name REGISTRY/agent:TAG` in a clone, push it, and write "
        "kubernetes.images.agent [agent-image]"
    )
    assert list(NATIVE.warnings(named)) == []
    container = one(NATIVE, named, "DaemonSet")["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == "registry.example:5000/agent:7"
    assert "[agent-image]" in files(NATIVE, bare)["install.sh"]
    assert "[agent-image]" not in files(NATIVE, named)["install.sh"]


@pytest.mark.parametrize("image", ["Agent", "a b", "agent@sha256:12", "https://registry.example/agent"])
def test_what_is_no_image_is_refused(image: str) -> None:
    with pytest.raises(ValueError, match="bad-image"):
        fabric(addressing=FLAT, kubernetes={"images": {"agent": image}})


def test_rendering_warns_on_standard_error_alone(tmp_path: Path) -> None:
    file = tmp_path / "fabric.yaml"
    file.write_text(
        "apiVersion: trackbed.dev/v1alpha1\nkind: Fabric\nmetadata: {name: train}\nspec:\n"
        "  nodes: [{hosts: gpu-0, server: dgx-h100}]\n  rails: 8\n"
        "  addressing: {scheme: shared-subnet, ipv4: 10.64.0.0/13}\n"
    )
    rendered = CliRunner().invoke(cli, ["render", "stack", "native", "-f", str(file)])
    assert "[agent-image]" in rendered.stderr
    assert "[agent-image]" not in rendered.stdout
    assert "[agent-image]" not in CliRunner().invoke(cli, ["render", "rights", "native", "-f", str(file)]).stderr


def test_the_command_line_is_one_that_the_agent_takes() -> None:
    command = agent()["containers"][0]["command"]
    known = CliRunner().invoke(cli, [*command[1:3], "--help"]).output
    assert [word for word in command if word.startswith("--") and not re.search(rf"{word}\b", known)] == []


def test_every_path_of_the_command_line_is_mounted() -> None:
    words = [word for word in agent()["containers"][0]["command"] if word.startswith("/")]
    paths = [mount["mountPath"] for mount in agent()["containers"][0]["volumeMounts"]]
    inside = [
        word for word in words if any(f"{path}/".startswith(f"{word}/") or word.startswith(path) for path in paths)
    ]
    assert words == inside


def test_the_agent_may_do_three_things_and_has_no_token() -> None:
    context = agent()["containers"][0]["securityContext"]
    assert context["capabilities"] == {"drop": ["ALL"], "add": ["NET_ADMIN", "NET_RAW", "SYS_ADMIN"]}
    assert "privileged" not in context
    assert not context["allowPrivilegeEscalation"]
    assert context["readOnlyRootFilesystem"]
    assert agent()["automountServiceAccountToken"] is False
    kinds = [manifest["kind"] for stage in NATIVE.stages(fabric(addressing=FLAT)) for manifest in stage.objects]
    assert not [kind for kind in kinds if kind.endswith(("Role", "RoleBinding"))]


def test_the_page_on_security_has_a_row_for_each_mount_and_each_capability() -> None:
    rows = re.findall(r"^\| `([^`]+)`", SECURITY.read_text(), re.MULTILINE)
    added = agent()["containers"][0]["securityContext"]["capabilities"]["add"]
    assert rows == [*added, *(mount.path for mount in MOUNTS)]


def test_the_objects_grow_by_nothing_with_the_number_of_nodes() -> None:
    few, many = (one(NATIVE, fabric(8, nodes, addressing=FLAT), "DaemonSet") for nodes in (2, 400))
    assert few == many


def test_the_bundle_labels_no_nodes() -> None:
    contents = files(NATIVE, fabric(addressing=FLAT))
    assert [name for name in contents if name[0].isdigit()] == [
        "10-namespace.yaml",
        "20-agent.yaml",
        "30-annotation.yaml",
    ]
    assert "wait_for_label " not in contents["install.sh"].partition("\nsay ")[2]
