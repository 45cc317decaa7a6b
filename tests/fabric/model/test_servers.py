from __future__ import annotations

import re

import pytest

from trackbed.fabric.model.load import load_fabric
from trackbed.fabric.model.problems import SpecError
from trackbed.fabric.model.servers import load_servers
from trackbed.fabric.plan.compute import compute_plan
from trackbed.fabric.text_syntax import PCI

KNOWN = load_servers()
WITH_PORTS = [name for name, server in KNOWN.items() if server.ports]


def fabric(group: str, rails: int = 8) -> bytes:
    return f"""apiVersion: trackbed.dev/v1alpha1
kind: Fabric
metadata: {{name: train}}
spec:
  nodes:
    - {{hosts: "gpu-[0-1]", {group}}}
  rails: {rails}
  addressing: {{scheme: shared-subnet, ipv4: 10.0.0.0/13}}
""".encode()


def problems(raw: bytes) -> list[str]:
    with pytest.raises(SpecError) as caught:
        load_fabric(raw, "fabric.yaml")
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize("name", WITH_PORTS)
def test_a_fabric_of_each_server_plans_the_ports_that_are_published(name: str) -> None:
    server = KNOWN[name]
    assert server.ports is not None
    node = compute_plan(load_fabric(fabric(f"server: {name}", len(server.ports)), "fabric.yaml").fabric, {}).nodes[1]
    assert tuple(port.pci for port in node.ports) == server.ports
    assert node.nic == server.nic.id


@pytest.mark.parametrize("name", KNOWN)
def test_a_server_of_the_catalogue_is_sound(name: str) -> None:
    server = KNOWN[name]
    ports = server.ports or ()
    aside = [nic.pci for nic in server.aside if nic.pci]
    assert all(PCI.fullmatch(pci) for pci in (*ports, *aside))
    assert len({*ports, *aside}) == len(ports) + len(aside), "each address once, and none both a rail and none"
    assert server.nic.id is None or re.fullmatch(r"[0-9a-f]{4}:[0-9a-f]{4}", server.nic.id)
    assert server.source


@pytest.mark.parametrize(
    ("server", "kubernetes", "resource"),
    [
        pytest.param("dgx-h100", "{}", "nvidia.com/gpu", id="NVIDIA's server"),
        pytest.param("azure-nd96isr-mi300x-v5", "{}", "amd.com/gpu", id="AMD's GPUs"),
        pytest.param(
            "azure-nd96isr-mi300x-v5", "{gpuResource: example.org/gpu.part}", "example.org/gpu.part", id="written"
        ),
    ],
)
def test_pods_ask_for_the_gpus_that_the_server_has(server: str, kubernetes: str, resource: str) -> None:
    raw = fabric(f"server: {server}") + f"  kubernetes: {kubernetes}\n".encode()
    assert compute_plan(load_fabric(raw, "fabric.yaml").fabric, {}).kubernetes.gpu_resource == resource


def test_what_the_group_says_goes_first() -> None:
    group = load_fabric(fabric('server: dgx-h100, nic: "15b3:1023", gpus: 4'), "fabric.yaml").fabric.spec.nodes[0]
    assert (group.nic, group.gpus) == ("15b3:1023", 4)
    assert group.ports is not None
    assert group.ports[0] is not None
    assert group.ports[0].pci == "0000:18:00.0"


def test_a_server_without_published_ports_takes_those_of_the_group() -> None:
    ports = ", ".join(f'"0000:{n:02x}:00.0"' for n in range(1, 9))
    group = load_fabric(fabric(f"server: smc-sys-821ge-tnhr, ports: [{ports}]"), "fabric.yaml").fabric.spec.nodes[0]
    assert (group.nic, group.gpus) == ("15b3:1021", 8)


WRONG = {
    "unknown": ("server: dgx-h10", 8, "fabric.yaml:6:7: error: the catalogue has no server 'dgx-h10'; did you mean"),
    "without ports": ("server: smc-sys-821ge-tnhr", 8, "the PCI addresses of smc-sys-821ge-tnhr are not published"),
    "other rails": ("server: dgx-gb200", 8, "4 ports (of server dgx-gb200) for 8 rails"),
    "no text": ("server: 7", 8, "the catalogue has no server '7'"),
}


@pytest.mark.parametrize(("group", "rails", "message"), WRONG.values(), ids=WRONG)
def test_what_names_no_server_is_told(group: str, rails: int, message: str) -> None:
    messages = problems(fabric(group, rails))
    assert len(messages) == 1
    assert message in messages[0]
