"""What a Fabric says that defeats another part of it, or is hardly intended: an error or a warning, with its place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackbed.cluster.stacks import MODULES, load_stack
from trackbed.cluster.stacks.releases import load_catalogue
from trackbed.fabric.model.host_terms import count_names
from trackbed.fabric.model.load import load_fabric
from trackbed.fabric.model.nodes import expand_hosts
from trackbed.fabric.model.problems import SpecError
from trackbed.fabric.model.stack_names import COMPONENTS
from trackbed.fabric.plan.compute import compute_plan

_HEAD = "apiVersion: trackbed.dev/v1alpha1\nkind: Fabric\nmetadata: {name: train}\nspec:\n"
_SHARED = "{scheme: shared-subnet, ipv4: 10.0.0.0/13}"
_GATEWAYS = "{scheme: node-subnet, ipv4: 10.0.0.0/13, ipv4RailPrefix: 16}"
_PAIRS = "{scheme: point-to-point, ipv4: 10.0.0.0/13}"


def _fabric(
    extra: str = "", *, hosts: str = "gpu-[0-3]", addressing: str = _SHARED, rails: str = "2", stack: str = ""
) -> str:
    """Return a Fabric: hosts in line 5, rails in 6, addressing in 7, `extra` or the stack in 8."""
    extra = extra or (f"kubernetes: {{stack: {stack}}}" if stack else "")
    text = f'{_HEAD}  nodes: [{{hosts: "{hosts}"}}]\n  rails: {rails}\n  addressing: {addressing}\n'
    return text + (f"  {extra}\n" if extra else "")


def _find_problems(text: str) -> list[str]:
    try:
        loaded = load_fabric(text.encode(), "f.yaml")
        problems = loaded.locate(compute_plan(loaded.fabric, {}).warnings)
    except SpecError as error:
        problems = list(error.problems)
    return list(map(str, problems))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            _fabric().replace('"}]', '", ports: [mlx5_0, mlx5_1]}]'),
            "f.yaml:5:39: warning: mlx5_0 is the name of an RDMA device, a port has that of an interface; `rdma link` "
            "shows both [port-is-device]",
            id="ports-by-rdma-device",
        ),
        pytest.param(
            _fabric("linkType: infiniband", addressing="{scheme: none}").replace('"}]', '", nic: "14e4:1760"}]'),
            "f.yaml:5:37: warning: Broadcom's NICs have no InfiniBand ports: write linkType ethernet, or the nic that "
            "is meant [nic-without-infiniband]",
            id="infiniband-of-broadcom",
        ),
        pytest.param(
            _fabric(stack="spiderpol"),
            "f.yaml:8:23: error: no stack is called 'spiderpol'; did you mean 'spiderpool'? [stack-unknown]",
            id="stack",
        ),
        pytest.param(
            _fabric("pods: {mode: sriov}"),
            "f.yaml:8:16: error: pods.mode sriov gives VFs to pods, and vfs.count is 0; write how many a port has, or "
            "mode macvlan [sriov-without-vfs]",
            id="sriov-without-vfs",
        ),
        pytest.param(
            _fabric("vfs: {count: 1}", addressing=_PAIRS),
            "f.yaml:8:16: warning: a /31 has one address for the host, and only stack spectrum-x gives it to a VF; "
            "write kubernetes.stack spectrum-x if that is meant, else vfs.count 0 to move the ports themselves "
            "[vfs-without-address]",
            id="point-to-point-with-a-vf",
        ),
        pytest.param(
            _fabric("vfs: {count: 8}", addressing=_PAIRS),
            "f.yaml:8:16: warning: a /31 has one address for the host, so 8 VFs of a port cannot have one each; write "
            "scheme node-subnet, or vfs.count 0 to move the ports themselves (1 for stack spectrum-x) "
            "[vfs-without-address]",
            id="point-to-point-with-vfs",
        ),
        pytest.param(
            _fabric("kubernetes: {versions: {spiderpol: v1.0.0}}"),
            "f.yaml:8:38: error: the release catalogue has no component 'spiderpol'; did you mean 'spiderpool'? "
            "[unknown-component]",
            id="versions",
        ),
        pytest.param(
            _fabric("kubernetes: {values: {nvidia_gpu_operator: {gdrcopy: {enabled: true}}}}"),
            "f.yaml:8:46: error: the release catalogue has no component 'nvidia_gpu_operator'; did you mean "
            "'nvidia-gpu-operator'? [unknown-component]",
            id="values",
        ),
        pytest.param(
            _fabric(addressing="{scheme: shared-subnet, ipv4: 8.8.0.0/15}"),
            "f.yaml:7:45: warning: 8.8.0.0/15 has public addresses: unless they are yours, hosts and pods no longer "
            "reach their owners; write a part of 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16 or 100.64.0.0/10 "
            "[public-range]",
            id="public-supernet",
        ),
        pytest.param(
            _fabric(addressing="{scheme: shared-subnet}", rails="[{ipv4: 198.18.0.0/15}, {ipv4: 198.20.0.0/16}]"),
            "f.yaml:6:41: warning: 198.20.0.0/16 has public addresses: unless they are yours, hosts and pods no longer "
            "reach their owners; write a part of 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16 or 100.64.0.0/10 "
            "[public-range]",
            id="public-rail",
        ),
        pytest.param(
            _fabric("names: {netdev: 'eth{rail}'}"),
            "f.yaml:8:19: warning: rail 0 is eth0 in pods, where the cluster's network has that name, so no pod "
            "starts; write names.pod, for example rail{rail} [pod-interface]",
            id="eth0-in-pods",
        ),
        pytest.param(
            _fabric("otherRanges: {nodes: [10.6.0.0/16], docker: []}", addressing=_GATEWAYS),
            "f.yaml:8:25: warning: node range 10.6.0.0/16 lies in 10.0.0.0/13, which hosts reach by the gateway of "
            "their first rail: addresses there that a host has no other route to leave by that rail; change one of "
            "them [overlap-supernet]",
            id="management-in-the-supernet",
        ),
        pytest.param(
            _fabric(hosts="gpu-[0-3],gpu-2"),
            "f.yaml:5:19: warning: gpu-2 is named more than once in these hosts and counts once; take it out, or write "
            "the host that is meant [repeated-host]",
            id="host-twice",
        ),
    ],
)
def test_a_contradiction_is_told_with_place_reason_and_remedy(text: str, expected: str) -> None:
    assert _find_problems(text) == [expected]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(_fabric(stack="spiderpool"), id="stack"),
        pytest.param(_fabric().replace('"}]', '", ports: [ibp24s0, mlx5]}]'), id="interfaces-that-look-like-devices"),
        pytest.param(_fabric("pods: {mode: sriov}\n  vfs: {count: 8}"), id="sriov-with-vfs"),
        pytest.param(_fabric("vfs: {count: 1}\n  kubernetes: {stack: spectrum-x}", addressing=_PAIRS), id="spectrum-x"),
        pytest.param(_fabric("kubernetes: {versions: {spiderpool: v1.0.0}}"), id="component"),
        pytest.param(_fabric(hosts="gpu-[0-3],gpu-[4-6,9],gpu-[10-20/2],gpu-[11-21/2]"), id="hosts"),
        pytest.param(_fabric(hosts="gpu-[1-3],gpu-[01-03]"), id="padded-hosts"),
        pytest.param(_fabric(addressing="{scheme: shared-subnet, ipv4: 100.64.0.0/10}"), id="shared-address-space"),
        pytest.param(_fabric(addressing="{scheme: shared-subnet, ipv6: 2001:db8::/32}"), id="global-ipv6"),
        pytest.param(_fabric(addressing="{scheme: none}"), id="no-addresses"),
        pytest.param(_fabric("names: {netdev: 'eth{rail}', pod: 'rail{rail}'}"), id="eth0-on-hosts"),
        pytest.param(_fabric("otherRanges: {nodes: [10.9.0.0/16]}", addressing=_GATEWAYS), id="nodes-outside"),
        pytest.param(_fabric("otherRanges: {docker: [10.6.0.0/16]}", addressing=_GATEWAYS), id="bridge-in-supernet"),
        pytest.param(
            _fabric(addressing="{scheme: point-to-point, layout: spectrum-x-2tier}"), id="docker-beyond-the-layout"
        ),
    ],
)
def test_what_is_meant_is_not_doubted(text: str) -> None:
    assert _find_problems(text) == []


def test_every_stack_and_component_has_its_name_here() -> None:
    assert {load_stack(name).name for name in MODULES} == MODULES.keys()
    assert set(COMPONENTS) == load_catalogue().keys()


_NUMBERS = st.integers(0, 12).map(str) | st.sampled_from(["0-3", "2-9/3", "01-03", "08-11", "10"])
_TERMS = st.tuples(st.sampled_from(["a", "b-"]), st.lists(_NUMBERS, min_size=1, max_size=3), st.sampled_from(["", "n"]))


@given(st.lists(_TERMS.map(lambda parts: f"{parts[0]}[{','.join(parts[1])}]{parts[2]}"), min_size=1, max_size=3))
def test_names_are_counted_as_clustershell_expands_them(terms: list[str]) -> None:
    assert set(count_names(",".join(terms))) == {name for term in terms for name in expand_hosts(term)}
