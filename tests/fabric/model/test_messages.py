"""Every kind of invalid input with its exact message: the error, its place, the remedy and the code."""

from __future__ import annotations

import pytest

from trackbed.fabric.model.load import load_fabric
from trackbed.fabric.model.problems import SpecError
from trackbed.fabric.plan.compute import compute_plan

HEAD = "apiVersion: trackbed.dev/v1alpha1\nkind: Fabric\nmetadata: {name: train}\nspec:\n"
NODES = '[{hosts: "gpu-[0-3]"}]'
SHARED = "{scheme: shared-subnet, ipv4: 10.0.0.0/15}"
P2P = "{scheme: point-to-point, ipv4: 10.0.0.0/15}"
LOCK = "---\napiVersion: trackbed.dev/v1alpha1\nkind: FabricLock\nfabric: train\nnodes: "


def fabric(extra: str = "", *, nodes: str = NODES, rails: str = "2", addressing: str = SHARED) -> str:
    """Return a Fabric: nodes in line 5, rails in line 6, addressing in line 7, `extra` from line 8."""
    text = f"{HEAD}  nodes: {nodes}\n  rails: {rails}\n  addressing: {addressing}\n"
    return text + (f"  {extra}\n" if extra else "")


def addressing(text: str) -> str:
    """Return a Fabric that is valid except for its addressing."""
    return fabric(addressing=text)


def nodes(text: str) -> str:
    """Return a Fabric that is valid except for its nodes."""
    return fabric(nodes=text)


def read_and_plan(raw: bytes) -> None:
    loaded = load_fabric(raw, "f.yaml")
    try:
        compute_plan(loaded.fabric, loaded.lock.nodes if loaded.lock else {})
    except SpecError as error:
        raise SpecError(loaded.locate(error.problems)) from error


def complaints(raw: bytes) -> str:
    """Return the problems of reading and planning a Fabric, one in a line."""
    with pytest.raises(SpecError) as caught:
        read_and_plan(raw)
    return str(caught.value)


FABRICS = {
    "unknown field": (
        fabric("mtuu: 9000"),
        ("f.yaml:8:3: error: unknown field 'mtuu'; did you mean 'mtu'? [unknown-field]"),
    ),
    "unknown field in a group": (
        nodes("[{host: gpu-0, hosts: gpu-0}]"),
        ("f.yaml:5:12: error: unknown field 'host'; did you mean 'hosts'? [unknown-field]"),
    ),
    "unknown field of the scheme": (
        addressing("{scheme: shared-subnet, ipv4: 10.0.0.0/15, podAdresses: 3}"),
        ("f.yaml:7:58: error: unknown field 'podAdresses'; did you mean 'podAddresses'? [unknown-field]"),
    ),
    "snake case": (
        fabric("link_type: ethernet"),
        ("f.yaml:8:3: error: unknown field 'link_type'; did you mean 'linkType'? [unknown-field]"),
    ),
    "missing field": (
        f"{HEAD}  nodes: {NODES}\n  rails: 2\n",
        ("f.yaml:5:3: error: field 'addressing' is missing [missing-field]"),
    ),
    "missing spec": (
        "apiVersion: trackbed.dev/v1alpha1\nkind: Fabric\nmetadata: {name: train}\n",
        ("f.yaml:1:1: error: field 'spec' is missing [missing-field]"),
    ),
    "missing scheme": (
        addressing("{ipv4: 10.0.0.0/15}"),
        ("f.yaml:7:15: error: field 'scheme' is missing in 'addressing' [missing-field]"),
    ),
    "bad choice": (
        addressing("{scheme: shared-subnets, ipv4: 10.0.0.0/15}"),
        (
            "f.yaml:7:15: error: scheme is 'shared-subnets', it must be shared-subnet or node-subnet or "
            "point-to-point or none; did you mean 'shared-subnet'? [bad-choice]"
        ),
    ),
    "bad choice far off": (
        fabric("linkType: tokenring"),
        ("f.yaml:8:13: error: linkType is 'tokenring', it must be ethernet or infiniband [bad-choice]"),
    ),
    "wrong version of the format": (
        fabric().replace("v1alpha1", "v1"),
        ("f.yaml:1:13: error: apiVersion is 'trackbed.dev/v1', it must be trackbed.dev/v1alpha1 [bad-choice]"),
    ),
    "wrong kind": (
        fabric().replace("kind: Fabric", "kind: fabric"),
        (
            "f.yaml:2:7: error: no document of kind Fabric here; it begins with apiVersion: "
            "trackbed.dev/v1alpha1 and kind: Fabric [no-fabric]"
        ),
    ),
    "not a number": (
        fabric("mtu: jumbo"),
        ("f.yaml:8:8: error: mtu is 'jumbo', it must be a whole number [not-a-number]"),
    ),
    "no rate": (
        fabric("rate: 400G"),
        ("f.yaml:8:9: error: rate is '400G', it must be a number [not-a-number]"),
    ),
    "out of bounds": (
        fabric("mtu: 100000"),
        ("f.yaml:8:8: error: mtu is 100000, it must be at most 65535 [out-of-bounds]"),
    ),
    "not true or false": (
        fabric("vfs: {trust: maybe}"),
        ("f.yaml:8:16: error: trust is 'maybe', it must be true or false [not-true-or-false]"),
    ),
    "a list where a mapping belongs": (
        fabric("qos: [26]"),
        ("f.yaml:8:8: error: qos must be a mapping, not a list [wrong-shape]"),
    ),
    "a mapping where a list belongs": (
        nodes("{hosts: gpu-0}"),
        ("f.yaml:5:10: error: nodes must be a list, not a mapping [wrong-shape]"),
    ),
    "nothing where text belongs": (
        nodes("[{hosts: }]"),
        ("f.yaml:5:19: error: hosts must be text, not nothing [wrong-shape]"),
    ),
    "no nodes": (
        nodes("[]"),
        ("f.yaml:5:10: error: nodes is empty, it needs at least one entry [empty]"),
    ),
    "bad fabric name": (
        fabric().replace("train", "Train_1"),
        (
            "f.yaml:3:18: error: 'Train_1' is no DNS label: lower case letters, digits and '-', at most 63 (RFC "
            "1123) [bad-label]"
        ),
    ),
    "tab": (
        fabric().replace("  rails", "\trails"),
        ("f.yaml:6:1: error: a tab indents this line; YAML allows spaces only [tab]"),
    ),
    "not YAML": (
        fabric("qos: {dscp: 26"),
        ("f.yaml:9:1: error: this is not YAML: did not find expected ',' or '}' [bad-yaml]"),
    ),
    "duplicate key": (
        fabric("mtu: 9000\n  mtu: 4200"),
        ("f.yaml:9:3: error: key 'mtu' stands twice in one mapping [duplicate-key]"),
    ),
    "a key that is a list": (
        fabric("? [a]\n  : b"),
        ("f.yaml:8:5: error: a key must be plain text [bad-key]"),
    ),
    "no Fabric": (
        "kind: Pod\n",
        (
            "f.yaml:1:7: error: no document of kind Fabric here; it begins with apiVersion: "
            "trackbed.dev/v1alpha1 and kind: Fabric [no-fabric]"
        ),
    ),
    "empty file": (
        "",
        (
            "f.yaml:1:1: error: no document of kind Fabric here; it begins with apiVersion: "
            "trackbed.dev/v1alpha1 and kind: Fabric [no-fabric]"
        ),
    ),
    "two Fabrics": (
        fabric() + "---\n" + fabric(),
        ("f.yaml:9:1: error: the input holds 2 documents of kind Fabric, one is read [two-fabrics]"),
    ),
    "duplicate node": (
        nodes('[{hosts: "gpu-[0-3]"}, {hosts: "gpu-[3-4]"}]'),
        ("f.yaml:5:41: error: node 'gpu-3' is already in group 1; a node belongs to one group [duplicate-node]"),
    ),
    "bad host range": (
        nodes('[{hosts: "gpu-[0-"}]'),
        (
            "f.yaml:5:19: error: 'gpu-[0-' is no host range (missing bracket: \"gpu-[0-\"), write for example "
            "gpu-[0-63] [bad-hosts]"
        ),
    ),
    "path traversal": (
        nodes('[{hosts: "../../etc/passwd"}]'),
        (
            "f.yaml:5:19: error: '../../etc/passwd' is no host name: letters, digits, '-', '_' and '.', 253 at "
            "most [bad-hosts]"
        ),
    ),
    "too many hosts": (
        nodes('[{hosts: "gpu-[0-100000]"}]'),
        ("f.yaml:5:19: error: 'gpu-[0-100000]' names 100001 hosts, it must be 1 to 100000 [bad-hosts]"),
    ),
    "too many hosts in all groups": (
        nodes('[{hosts: "a[0-99999]"}, {hosts: b}]'),
        ("f.yaml:5:10: error: the groups name 100001 hosts, a Fabric has at most 100000 [too-many-nodes]"),
    ),
    "too many ports": (
        nodes('[{hosts: "a[0-99999]"}]').replace("rails: 2", "rails: 9"),
        (
            "f.yaml:5:10: error: 100000 hosts with 9 rails have 900000 ports, a Fabric has at most 800000; cut it "
            "into several [too-many-ports]"
        ),
    ),
    "host range of thousands of brackets": (
        nodes(f'[{{hosts: "{"a[1-2]" * 5000}"}}]'),
        (
            f"f.yaml:5:19: error: '{('a[1-2]' * 10)}...' names 1000000000000000000 hosts, it must be 1 to 100000 "
            "[bad-hosts]"
        ),
    ),
    "too many rails": (
        fabric(rails="65"),
        ("f.yaml:6:10: error: rails is '65'; write a number from 1 to 64, or a list of rails [bad-rails]"),
    ),
    "no rails": (
        fabric(rails="[]"),
        ("f.yaml:6:10: error: rails lists 0; it must be 1 to 64 [bad-rails]"),
    ),
    "rails that is text": (
        fabric(rails="eight"),
        ("f.yaml:6:10: error: rails is 'eight'; write a number from 1 to 64, or a list of rails [bad-rails]"),
    ),
    "port count": (
        nodes("[{hosts: gpu-0, ports: [eth0]}]"),
        ("f.yaml:5:33: error: 1 ports for 2 rails; list one for each rail, null where there is none [port-count]"),
    ),
    "two rails with one PCI address": (
        nodes('[{hosts: gpu-0, ports: ["0000:3b:00.0", "0000:3b:00.0"]}]'),
        (
            "f.yaml:5:50: error: rails 0 and 1 have one PCI address, 0000:3b:00.0; each port belongs to one rail "
            "[duplicate-port]"
        ),
    ),
    "two rails with one name": (
        nodes("[{hosts: gpu-0, ports: [eth0, eth0]}]"),
        (
            "f.yaml:5:40: error: rails 0 and 1 have one interface name, eth0; each port belongs to one rail "
            "[duplicate-port]"
        ),
    ),
    "duplicate MAC": (
        nodes("[{hosts: 'a,b', hostPorts: {a: [b8:3f:d2:00:00:01, x], b: [y, B8-3F-D2-00-00-01]}}]"),
        (
            "f.yaml:5:72: error: MAC address b8:3f:d2:00:00:01 is already at 'a'; a MAC address belongs to "
            "one port [duplicate-mac]"
        ),
    ),
    "ports of a host that is not there": (
        nodes('[{hosts: "gpu-[0-1]", hostPorts: {gpu-2: [eth0, eth1]}}]'),
        ("f.yaml:5:51: error: 'gpu-2' is not among hosts 'gpu-[0-1]' [unknown-node]"),
    ),
    "empty port": (
        nodes("[{hosts: gpu-0, ports: [{}, eth1]}]"),
        ("f.yaml:5:34: error: a port needs one of pci, mac, netdev [empty-port]"),
    ),
    "bad PCI address": (
        nodes('[{hosts: gpu-0, ports: [{pci: "3b:00.0"}, eth1]}]'),
        ("f.yaml:5:40: error: '3b:00.0' is no PCI address, write for example 0000:3b:00.0 [bad-pci]"),
    ),
    "bad MAC address": (
        nodes('[{hosts: gpu-0, ports: [{mac: "b8:3f"}, eth1]}]'),
        ("f.yaml:5:40: error: 'b8:3f' is no MAC address of a port, write for example b8:3f:d2:00:00:01 [bad-mac]"),
    ),
    "MAC address of a group": (
        nodes("[{hosts: gpu-0, ports: ['01:00:5e:00:00:01', eth1]}]"),
        (
            "f.yaml:5:34: error: '01:00:5e:00:00:01' is no MAC address of a port, write for example b8:3f:d2:00:00:01 "
            "[bad-mac]"
        ),
    ),
    "MAC address of lo": (
        nodes("[{hosts: gpu-0, ports: ['00:00:00:00:00:00', eth1]}]"),
        (
            "f.yaml:5:34: error: '00:00:00:00:00:00' is no MAC address of a port, write for example b8:3f:d2:00:00:01 "
            "[bad-mac]"
        ),
    ),
    "more VFs than a host has": (
        fabric("vfs: {count: 256}", nodes="[{hosts: gpu-0}]").replace("rails: 2", "rails: 17"),
        ("f.yaml:8:16: error: 256 VFs on 17 rails are 4352 on a host, 4096 at most; write fewer [too-many-vfs]"),
    ),
    "a host without a port": (
        nodes("[{hosts: gpu-0, hostPorts: {gpu-0: [null, null]}}]"),
        ("f.yaml:5:45: error: this host has a port on no rail; leave it out [no-ports]"),
    ),
    "a port that has the name of another": (
        nodes("[{hosts: gpu-0, ports: [rail1, '0000:18:00.0']}]"),
        (
            "f.yaml:5:34: error: the port of rail 0 keeps its name rail1, which the port of rail 1 gets; write another "
            "names.netdev [duplicate-name]"
        ),
    ),
    "a range that no port can have": (
        addressing("{scheme: shared-subnet, ipv4: 224.0.0.0/8}"),
        ("f.yaml:7:45: error: 224.0.0.0/8 contains addresses of 224.0.0.0/3, which no port can have [reserved-range]"),
    ),
    "interface name over 15 bytes": (
        nodes("[{hosts: gpu-0, ports: [enp123456s0f0np0, eth1]}]"),
        ("f.yaml:5:34: error: interface name 'enp123456s0f0np0' has 16 bytes, the kernel allows 15 [name-too-long]"),
    ),
    "PCI address without its domain": (
        nodes("[{hosts: gpu-0, ports: ['3b:00.0', eth1]}]"),
        (
            "f.yaml:5:34: error: '3b:00.0' is no interface name, but a PCI address without its domain; write "
            "0000:3b:00.0 [bad-name]"
        ),
    ),
    "interface name with a slash": (
        nodes("[{hosts: gpu-0, ports: [eth/0, eth1]}]"),
        (
            "f.yaml:5:34: error: interface name 'eth/0' is not one that every tool reads as it is: write letters, "
            "digits, '_', '.' and '-', the first of them no '.' or '-' [bad-name]"
        ),
    ),
    "name template over 15 bytes": (
        fabric("names: {netdev: 'fabric-east-rail{rail}'}"),
        ("f.yaml:8:19: error: interface name 'fabric-east-rail0' has 17 bytes, the kernel allows 15 [name-too-long]"),
    ),
    "name in pods over 15 bytes": (
        fabric("names: {pod: 'fabric-to-east-{rail}'}"),
        ("f.yaml:8:16: error: interface name 'fabric-to-east-0' has 16 bytes, the kernel allows 15 [name-too-long]"),
    ),
    "name in pods with a slash": (
        fabric("names: {pod: 'net/{rail}'}"),
        (
            "f.yaml:8:16: error: template 'net/{rail}' may have letters, digits, '_', '.' and '-' only, besides {rail} "
            "and its like [bad-template]"
        ),
    ),
    "name template without rail": (
        fabric("names: {netdev: rail}"),
        ("f.yaml:8:19: error: template 'rail' gives all rails one name, put {rail} in it [bad-template]"),
    ),
    "name template with something else": (
        fabric("names: {rdma: 'mlx5_{index}'}"),
        ("f.yaml:8:17: error: template 'mlx5_{index}' may use {rail}, {number} and {unit} only [bad-template]"),
    ),
    "name template of a gigabyte": (
        fabric("names: {leaf: 'leaf{rail:999999999}'}"),
        ("f.yaml:8:17: error: template 'leaf{rail:999999999}' may use {rail}, {number} and {unit} only [bad-template]"),
    ),
    "name template that reads an attribute": (
        fabric("names: {rdma: '{rail.real}'}"),
        ("f.yaml:8:17: error: template '{rail.real}' may use {rail}, {number} and {unit} only [bad-template]"),
    ),
    "name template that reads an item": (
        fabric("names: {netdev: '{rail[0]}'}"),
        ("f.yaml:8:19: error: template '{rail[0]}' may use {rail}, {number} and {unit} only [bad-template]"),
    ),
    "name template with a command": (
        fabric("names: {rdma: 'y{rail}$(reboot)'}"),
        (
            "f.yaml:8:17: error: template 'y{rail}$(reboot)' may have letters, digits, '_', '.' and '-' only, besides "
            "{rail} and its like [bad-template]"
        ),
    ),
    "name template of a page": (
        fabric(f"names: {{leaf: '{{rail}}{'x' * 123}'}}"),
        ("f.yaml:8:17: error: a template has 129 characters; write 128 at most [bad-template]"),
    ),
    "name template that a tool reads as an option": (
        fabric("names: {rdma: '-{rail}'}"),
        (
            "f.yaml:8:17: error: RDMA device name '-0' is not one for all tools: 63 bytes at most, the first no '.' or "
            "'-' [bad-name]"
        ),
    ),
    "name of a leaf that is a hidden file": (
        fabric("names: {leaf: '.{rail}'}"),
        (
            "f.yaml:8:17: error: leaf name '.63' is no name of a switch: 128 bytes at most, the first no '.' or '-' "
            "[bad-name]"
        ),
    ),
    "interface name that is a folder of sysctls": (
        nodes("[{hosts: gpu-0, ports: [all, eth1]}]"),
        (
            "f.yaml:5:34: error: interface name 'all' means something else to the kernel or its tools; write another "
            "one [bad-name]"
        ),
    ),
    "interface name that is a command": (
        nodes("[{hosts: gpu-0, ports: [$(id), eth1]}]"),
        (
            "f.yaml:5:34: error: interface name '$(id)' is not one that every tool reads as it is: write letters, "
            "digits, '_', '.' and '-', the first of them no '.' or '-' [bad-name]"
        ),
    ),
    "resource name with a dot": (
        fabric("names: {resource: 'nvidia.com/rail.{number}'}"),
        (
            "f.yaml:8:21: error: resource name 'nvidia.com/rail.1' is not one that all device plugins take: "
            "PREFIX/NAME, the name of letters, digits, '_' and '-' (the SR-IOV device plugin takes no '.') "
            "[bad-resource]"
        ),
    ),
    "network name that is no DNS label": (
        fabric("names: {network: 'Rail_{rail}'}"),
        (
            "f.yaml:8:20: error: network name 'Rail_0' is no DNS label of 40 bytes at most: lower case letters, digits "
            "and '-' (RFC 1123) [bad-network]"
        ),
    ),
    "bad PCI id": (
        nodes("[{hosts: gpu-0, nic: ConnectX-7}]"),
        ("f.yaml:5:31: error: 'connectx-7' is no PCI id, write vendor:device as in 15b3:1021 [bad-pci-id]"),
    ),
    "bad partition key": (
        fabric("kubernetes: {pkey: '0x8000'}"),
        (
            "f.yaml:8:22: error: '0x8000' is no partition key: 0x0001 to 0x7fff, or with the member bit to 0xffff "
            "[bad-pkey]"
        ),
    ),
    "partition key on Ethernet": (
        fabric("kubernetes: {pkey: '0x8001'}"),
        (
            "f.yaml:8:22: error: a partition key is InfiniBand's, and linkType is ethernet; leave it out, or write "
            "linkType infiniband [pkey-on-ethernet]"
        ),
    ),
    "GPUs by a word that is no resource": (
        fabric("kubernetes: {gpuResource: gpu}"),
        ("f.yaml:8:29: error: 'gpu' is no extended resource, write for example amd.com/gpu [bad-resource]"),
    ),
    "unknown IPAM": (
        fabric("kubernetes: {ipam: dhcp}"),
        ("f.yaml:8:22: error: ipam is 'dhcp', it must be nv-ipam or whereabouts [bad-choice]"),
    ),
    "GPUs no multiple of rails": (
        nodes("[{hosts: gpu-0, gpus: 3}]"),
        ("f.yaml:5:32: error: 3 GPUs and 2 ports: one must be a multiple of the other [gpu-count]"),
    ),
    "host bits": (
        addressing("{scheme: shared-subnet, ipv4: 10.0.0.5/15}"),
        ("f.yaml:7:45: error: 10.0.0.5/15 has host bits set, write 10.0.0.0/15 [host-bits]"),
    ),
    "no prefix": (
        addressing("{scheme: shared-subnet, ipv4: 10.0.0.0}"),
        (
            "f.yaml:7:45: error: '10.0.0.0' is no IPv4 range (no prefix length), write for example 10.0.0.0/16 "
            "[bad-range]"
        ),
    ),
    "wrong IP version": (
        addressing("{scheme: shared-subnet, ipv4: 'fd00:10::/48'}"),
        ("f.yaml:7:45: error: fd00:10::/48 is IPv6; this field wants IPv4 [wrong-ip-version]"),
    ),
    "bad gateway": (
        fabric(rails="[{gateway: here}, {}]"),
        ("f.yaml:6:21: error: 'here' is no IPv4 address [bad-address]"),
    ),
    "gateway of the wrong IP version": (
        fabric(rails="[{gateway: 'fd00::1'}, {}]"),
        ("f.yaml:6:21: error: fd00::1 is IPv6; this field wants IPv4 [wrong-ip-version]"),
    ),
    "gateway outside": (
        fabric(rails="[{gateway: 10.9.0.1}, {}]"),
        ("f.yaml:6:21: error: gateway 10.9.0.1 lies outside rail 0's 10.0.0.0/16 [gateway-outside]"),
    ),
    "gateway is the broadcast address": (
        fabric(rails="[{gateway: 10.0.255.255}, {}]"),
        (
            "f.yaml:6:21: error: gateway 10.0.255.255 is the network or broadcast address of 10.0.0.0/16; choose "
            "another address [gateway-unusable]"
        ),
    ),
    "gateway is the network address": (
        fabric(rails="[{gateway: 10.0.0.0}, {}]"),
        (
            "f.yaml:6:21: error: gateway 10.0.0.0 is the network or broadcast address of 10.0.0.0/16; choose another "
            "address [gateway-unusable]"
        ),
    ),
    "range too small": (
        fabric(nodes='[{hosts: "gpu-[0-63]"}]', addressing="{scheme: shared-subnet, ipv4: 10.0.0.0/23}"),
        (
            "f.yaml:7:45: error: 10.0.0.0/24 of rail 0 has room for 14 nodes, 64 are wanted; take a larger range: "
            "a /21 for each rail [range-too-small]\n"
            "f.yaml:7:45: error: 10.0.1.0/24 of rail 1 has room for 14 nodes, 64 are wanted; take a larger range: "
            "a /21 for each rail [range-too-small]"
        ),
    ),
    "range too small for node subnets": (
        fabric(nodes='[{hosts: "gpu-[0-63]"}]', addressing="{scheme: node-subnet, ipv4: 10.0.0.0/21}"),
        (
            "f.yaml:7:43: error: 10.0.0.0/22 of rail 0 has room for 32 nodes, 64 are wanted; take a larger range: "
            "a /21 for each rail [range-too-small]\n"
            "f.yaml:7:43: error: 10.0.4.0/22 of rail 1 has room for 32 nodes, 64 are wanted; take a larger range: "
            "a /21 for each rail [range-too-small]"
        ),
    ),
    "range too small for /31s": (
        fabric(nodes='[{hosts: "gpu-[0-63]"}]', addressing="{scheme: point-to-point, ipv4: 10.0.0.0/26}"),
        (
            "f.yaml:7:46: error: 10.0.0.0/27 of rail 0 has room for 16 nodes, 64 are wanted; take a larger range: "
            "a /25 for each rail [range-too-small]\n"
            "f.yaml:7:46: error: 10.0.0.32/27 of rail 1 has room for 16 nodes, 64 are wanted; take a larger "
            "range: a /25 for each rail [range-too-small]"
        ),
    ),
    "range too small for the lock's holes": (
        addressing("{scheme: shared-subnet, ipv4: 10.0.0.0/23}") + LOCK + "{gpu-0: 99}\n",
        (
            "f.yaml:7:45: error: 10.0.0.0/24 of rail 0 has room for 14 nodes, 4 are wanted (gpu-0 has slot 99); "
            "take a larger range: a /21 for each rail [range-too-small]\n"
            "f.yaml:7:45: error: 10.0.1.0/24 of rail 1 has room for 14 nodes, 4 are wanted (gpu-0 has slot 99); "
            "take a larger range: a /21 for each rail [range-too-small]"
        ),
    ),
    "supernet too small": (
        fabric(rails="8", addressing="{scheme: shared-subnet, ipv4: 10.0.0.0/15, ipv4RailPrefix: 16}"),
        (
            "f.yaml:7:45: error: 10.0.0.0/15 holds 2 ranges of /16, 8 rails need 8; take a larger range, a /13 "
            "[supernet-too-small]"
        ),
    ),
    "supernet with fewer addresses than rails": (
        fabric(rails="8", addressing="{scheme: shared-subnet, ipv4: 10.64.0.0/30}"),
        (
            "f.yaml:7:45: error: 10.64.0.0/30 holds 4 ranges of /32, 8 rails need 8; take a larger range, a /29 "
            "[supernet-too-small]"
        ),
    ),
    "IPv6 supernet with fewer addresses than rails": (
        fabric(rails="8", addressing="{scheme: point-to-point, ipv6: 'fd00::/126'}"),
        (
            "f.yaml:7:46: error: fd00::/126 holds 4 ranges of /128, 8 rails need 8; take a larger range, a /125 "
            "[supernet-too-small]"
        ),
    ),
    "rails overlap": (
        fabric(rails="[{ipv4: 10.0.0.0/15}, {ipv4: 10.1.0.0/16}]", addressing="{scheme: shared-subnet}"),
        (
            "f.yaml:6:39: error: rail 1 has 10.1.0.0/16, which overlaps rail 0's 10.0.0.0/15; rails need ranges "
            "of their own [rails-overlap]"
        ),
    ),
    "range on some rails only": (
        fabric(rails="[{ipv4: 10.0.0.0/16}, {}]", addressing="{scheme: shared-subnet}"),
        ("f.yaml:7:15: error: only 1 of 2 rails give ipv4; give all, or addressing.ipv4 [missing-range]"),
    ),
    "no range at all": (
        addressing("{scheme: node-subnet}"),
        (
            "f.yaml:7:15: error: scheme node-subnet needs a range: addressing.ipv4 (or ipv6), or one for each "
            "rail [missing-range]"
        ),
    ),
    "overlap with a pod range": (
        fabric("otherRanges: {pods: [10.0.0.0/8]}"),
        (
            "f.yaml:8:24: error: pod range 10.0.0.0/8 overlaps 10.0.0.0/16 of rail 0; change one of them "
            "[overlap]\n"
            "f.yaml:8:24: error: pod range 10.0.0.0/8 overlaps 10.1.0.0/16 of rail 1; change one of them "
            "[overlap]"
        ),
    ),
    "overlap with a service range": (
        fabric("otherRanges: {services: [10.1.128.0/17]}"),
        (
            "f.yaml:8:28: error: service range 10.1.128.0/17 overlaps 10.1.0.0/16 of rail 1; change one of them "
            "[overlap]"
        ),
    ),
    "overlap with docker": (
        addressing("{scheme: shared-subnet, ipv4: 172.16.0.0/15}"),
        (
            "f.yaml:5:3: error: docker range 172.17.0.0/16 overlaps 172.17.0.0/16 of rail 1; change one of them, "
            "or write otherRanges: {docker: []} where no docker runs [overlap]"
        ),
    ),
    "/31 with more than one pod address": (
        addressing("{scheme: point-to-point, ipv4: 10.0.0.0/15, podAddresses: 4}"),
        ("f.yaml:7:73: error: podAddresses is 4, it must be at most 1 [out-of-bounds]"),
    ),
    "macvlan on /31": (
        fabric("pods: {mode: macvlan}", addressing=P2P),
        (
            "f.yaml:8:16: error: a /31 has no address left for a macvlan pod; write mode: move, or take scheme "
            "node-subnet [pod-mode]"
        ),
    ),
    "macvlan without pod addresses": (
        addressing("{scheme: shared-subnet, ipv4: 10.0.0.0/15, podAddresses: 0}"),
        ("f.yaml:7:72: error: pods.mode macvlan needs podAddresses of 1 or more [no-pod-addresses]"),
    ),
    "MTU below what RDMA 4096 needs": (
        fabric("mtu: 4096"),
        (
            "f.yaml:8:8: error: mtu 4096 leaves no room for RDMA's path MTU of 4096: it needs 4200 (or set "
            "rdma.pathMtu lower) [mtu-too-small]"
        ),
    ),
    "MTU of VFs above the ports'": (
        fabric("mtu: 4200\n  vfs: {mtu: 9000}"),
        ("f.yaml:9:14: error: VF mtu 9000 is above the port's 4200; a VF cannot send more than its port [vf-mtu]"),
    ),
    "path MTU that RDMA does not have": (
        fabric("rdma: {pathMtu: 9000}"),
        ("f.yaml:8:19: error: pathMtu is 9000, it must be 256 or 512 or 1024 or 2048 or 4096 [bad-choice]"),
    ),
    "same DSCP": (
        fabric("qos: {dscp: 48}"),
        (
            "f.yaml:8:8: error: dscp and cnpDscp are both 48: congestion notifications need a class of "
            "their own [same-dscp]"
        ),
    ),
    "one BMC of many hosts": (
        fabric('bios: {bmc: "bmc-0:443"}'),
        (
            "f.yaml:8:15: error: all 4 hosts would have the BMC bmc-0:443; write a name with {host}, such as "
            "bmc-{host} [bad-bmc]"
        ),
    ),
    "no port of a BMC": (
        fabric('bios: {bmc: "bmc-{host}:65536"}'),
        (
            "f.yaml:8:15: error: 'bmc-{host}:65536' is no address of a BMC; write a name such as bmc-{host}, without "
            "https:// [bad-bmc]"
        ),
    ),
    "exclusive RDMA with macvlan": (
        fabric("rdma: {namespaceMode: exclusive}"),
        (
            "f.yaml:8:25: error: namespaceMode exclusive hides RDMA devices from macvlan pods; write shared, or "
            "pods.mode move [rdma-mode]"
        ),
    ),
    "unit too large": (
        fabric("nodesPerUnit: 256", addressing="{scheme: point-to-point, layout: spectrum-x-2tier}"),
        (
            "f.yaml:8:17: error: nodesPerUnit is 256; layout spectrum-x-2tier numbers 128 hosts in a unit "
            "[unit-too-large]"
        ),
    ),
    "unit full": (
        fabric("nodesPerUnit: 2", nodes='[{hosts: "gpu-[0-3]", unit: 0}]'),
        ("f.yaml:5:19: error: unit 0 has room for 2 nodes (nodesPerUnit); hosts 'gpu-[0-3]' do not fit [unit-full]"),
    ),
    "unit moved": (
        fabric(nodes='[{hosts: "gpu-[0-3]", unit: 1}]') + LOCK + "{gpu-0: 0}\n",
        (
            "f.yaml:5:38: error: the lock has 'gpu-0' in unit 0, its group says unit 1; if it was re-cabled, "
            "delete its line from the lock: it gets new addresses [unit-moved]"
        ),
    ),
    "unit full of hosts that are gone": (
        fabric("nodesPerUnit: 2", nodes='[{hosts: "gpu-[1-2]", unit: 0}]') + LOCK + "{gpu-0: 0, gpu-1: 1}\n",
        (
            "f.yaml:5:19: error: unit 0 has room for 2 nodes (nodesPerUnit); hosts 'gpu-[1-2]' do not fit: the lock "
            "keeps the slots of gpu-0 there; delete the lines of those that are gone [unit-full]"
        ),
    ),
    "more units than the layout has": (
        fabric(
            nodes="[{hosts: gpu-0, unit: 300}]",
            rails="1",
            addressing="{scheme: point-to-point, layout: spectrum-x-2tier}",
        ),
        (
            "f.yaml:7:15: error: 172.16.0.0/15 of rail 0 has room for 8192 nodes, 1 are wanted (gpu-0 has slot 9600); "
            "no larger range helps: write a larger nodesPerUnit, or a lower unit [range-too-small]"
        ),
    ),
    "range of a rail too small": (
        fabric(rails="[{ipv4: 10.0.0.0/28}, {ipv4: 10.1.0.0/16}]", addressing="{scheme: shared-subnet}"),
        (
            "f.yaml:6:18: error: 10.0.0.0/28 of rail 0 has room for 0 nodes, 4 are wanted; take a larger range: a /25 "
            "for each rail [range-too-small]"
        ),
    ),
    "rails of two private blocks": (
        fabric(
            rails="[{ipv4: 192.168.0.0/16}, {ipv4: 10.20.0.0/16}]",
            addressing="{scheme: node-subnet}",
        ),
        (
            "f.yaml:6:42: error: rail 1 has 10.20.0.0/16 and rail 0 has 192.168.0.0/16: the smallest range that holds "
            "all rails is 0.0.0.0/0, so hosts would send traffic for others to a rail; take ranges next to each other "
            "[supernet-too-wide]"
        ),
    ),
    "rails of two sites in IPv6": (
        fabric(
            rails="[{ipv6: 'fd00:1::/48'}, {ipv6: '2001:db8:1::/48'}]",
            addressing="{scheme: node-subnet}",
        ),
        (
            "f.yaml:6:41: error: rail 1 has 2001:db8:1::/48 and rail 0 has fd00:1::/48: the smallest range that holds "
            "all rails is ::/0, so hosts would send traffic for others to a rail; take ranges next to each other "
            "[supernet-too-wide]"
        ),
    ),
    "gateway without range": (
        fabric(rails="[{gateway: 10.0.0.1}, {}]", addressing="{scheme: shared-subnet, ipv6: 'fd00::/48'}"),
        ("f.yaml:6:21: error: rail 0 has no ipv4 range; write ipv4, or leave gateway out [unused-gateway]"),
    ),
    "link-local range": (
        addressing("{scheme: shared-subnet, ipv4: 169.254.0.0/16}"),
        (
            "f.yaml:7:45: error: 169.254.0.0/16 contains addresses of 169.254.0.0/16, which no port can have "
            "[reserved-range]"
        ),
    ),
    "MAC address of two hosts with ports": (
        fabric(nodes='[{hosts: a, ports: ["02:00:00:00:00:01"]}, {hosts: b, ports: ["02:00:00:00:00:01"]}]', rails="1"),
        (
            "f.yaml:5:72: error: MAC address 02:00:00:00:00:01 is already at 'a'; a MAC address belongs to one port "
            "[duplicate-mac]"
        ),
    ),
    "a port that has the name of another, beside a host with its own ports": (
        nodes('[{hosts: "a,b", ports: [rail1, "0000:18:00.0"], hostPorts: {b: [x0, x1]}}]'),
        (
            "f.yaml:5:34: error: the port of rail 0 keeps its name rail1, which the port of rail 1 gets; write another "
            "names.netdev [duplicate-name]"
        ),
    ),
    "foreign lock": (
        fabric() + LOCK.replace("train", "other") + "{gpu-0: 0}\n",
        (
            "f.yaml:11:9: error: this lock belongs to fabric 'other', not 'train'; "
            "a lock is read from beside its Fabric, so each Fabric needs a folder of its own [foreign-lock]"
        ),
    ),
    "two nodes in one slot": (
        fabric() + LOCK + "{gpu-0: 0, gpu-1: 0}\n",
        ("f.yaml:12:26: error: 'gpu-1' and 'gpu-0' both have slot 0; a slot belongs to one node [duplicate-slot]"),
    ),
    "slot below 0": (
        fabric() + LOCK + "{gpu-0: -1}\n",
        ("f.yaml:12:16: error: slot -1 of 'gpu-0' is below 0 [bad-slot]"),
    ),
    "slot that is no number": (
        fabric() + LOCK + "{gpu-0: first}\n",
        ("f.yaml:12:16: error: gpu-0 is 'first', it must be a whole number [not-a-number]"),
    ),
    "deep nesting": (
        fabric("qos: " + "[" * 50 + "]" * 50),
        ("f.yaml:8:47: error: this is nested more than 40 levels deep, or holds itself [too-deep]"),
    ),
    "very deep nesting": (
        fabric("qos: " + "[" * 100_000),
        ("f.yaml:8:47: error: this is nested more than 40 levels deep [too-deep]"),
    ),
    "route tables of the kernel": (
        fabric("routing: {tableBase: 253}"),
        ("f.yaml:8:24: error: tableBase is 253, it must be at least 256 [out-of-bounds]"),
    ),
    "rule after main": (
        fabric("routing: {rulePriority: 32766}"),
        ("f.yaml:8:27: error: rulePriority is 32766, it must be at most 32000 [out-of-bounds]"),
    ),
    "range too small in IPv6": (
        fabric(addressing="{scheme: shared-subnet, ipv6: 'fd00::/121', ipv6RailPrefix: 122}"),
        (
            "f.yaml:7:45: error: fd00::/122 of rail 0 has room for 3 nodes, 4 are wanted; take a larger range: a "
            "/121 for each rail [range-too-small]\n"
            "f.yaml:7:45: error: fd00::40/122 of rail 1 has room for 3 nodes, 4 are wanted; take a larger range: "
            "a /121 for each rail [range-too-small]"
        ),
    ),
    "supernet narrower than a rail": (
        addressing("{scheme: shared-subnet, ipv4: 10.0.0.0/15, ipv4RailPrefix: 8}"),
        (
            "f.yaml:7:45: error: 10.0.0.0/15 holds 0 ranges of /8, 2 rails need 2; take a larger range, or "
            "smaller ones for the rails [supernet-too-small]"
        ),
    ),
    "one MAC address for a group": (
        nodes('[{hosts: "gpu-[0-1]", ports: [b8:3f:d2:00:00:01, b8:3f:d2:00:00:02]}]'),
        (
            "f.yaml:5:40: error: one MAC address for 2 hosts; write it under hostPorts, for the host that it "
            "belongs to [shared-mac]"
        ),
    ),
    "two rails of one name": (
        fabric(rails="[{name: east}, {name: east}]"),
        (
            "f.yaml:6:32: error: rails 0 and 1 are both called 'east'; a host has one interface of each name "
            "[duplicate-name]"
        ),
    ),
    "gateway in a scheme that computes it": (
        fabric(rails="[{gateway: 10.0.0.1}, {}]", addressing=P2P),
        (
            "f.yaml:6:21: error: gateway belongs to scheme shared-subnet; point-to-point computes one for each "
            "node [unused-gateway]"
        ),
    ),
    "host range with letters": (
        nodes('[{hosts: "gpu-[a-c]"}]'),
        ("f.yaml:5:19: error: 'gpu-[a-c]' is no host range ([a-c] cannot be read), write gpu-[0-63,70] [bad-hosts]"),
    ),
    "host range with two dashes": (
        nodes('[{hosts: "gpu-[1-2-3]"}]'),
        (
            "f.yaml:5:19: error: 'gpu-[1-2-3]' is no host range ([1-2-3] cannot be read), write gpu-[0-63,70] "
            "[bad-hosts]"
        ),
    ),
    "host range of thousands of millions": (
        nodes('[{hosts: "gpu-[0-999999999]x[0-9]"}]'),
        ("f.yaml:5:19: error: 'gpu-[0-999999999]x[0-9]' names 10000000000 hosts, it must be 1 to 100000 [bad-hosts]"),
    ),
    "group of ClusterShell": (
        nodes('[{hosts: "@all"}]'),
        ("f.yaml:5:19: error: '@all' is no host name: letters, digits, '-', '_' and '.', 253 at most [bad-hosts]"),
    ),
    "hosts with digits of another script": (
        nodes('[{hosts: "gpu-\u0663"}]'),
        (
            "f.yaml:5:19: error: 'gpu-\u0663' is no host name: letters, digits, '-', '_' and '.', 253 at most "
            "[bad-hosts]"
        ),
    ),
    "empty hosts": (
        nodes('[{hosts: ""}]'),
        ("f.yaml:5:19: error: '' names 0 hosts, it must be 1 to 100000 [bad-hosts]"),
    ),
    "several at once": (
        fabric("mtu: 1000\n  qoss: {}", rails="0"),
        (
            "f.yaml:6:10: error: rails is '0'; write a number from 1 to 64, or a list of rails [bad-rails]\n"
            "f.yaml:8:8: error: mtu is 1000, it must be at least 1280 [out-of-bounds]\n"
            "f.yaml:9:3: error: unknown field 'qoss'; did you mean 'qos'? [unknown-field]"
        ),
    ),
}


@pytest.mark.parametrize(("text", "message"), FABRICS.values(), ids=FABRICS.keys())
def test_a_bad_fabric_is_told_what_is_wrong(text: str, message: str) -> None:
    assert complaints(text.encode()) == message


def test_a_lock_in_a_file_of_its_own_is_blamed_by_name() -> None:
    lock = LOCK.removeprefix("---\n") + "{gpu-0: 0, gpu-1: 0}\n"
    with pytest.raises(SpecError) as caught:
        load_fabric(fabric().encode(), "f.yaml", lock.encode(), "f.lock.yaml")
    assert str(caught.value) == (
        "f.lock.yaml:4:26: error: 'gpu-1' and 'gpu-0' both have slot 0; a slot belongs to one node [duplicate-slot]"
    )
