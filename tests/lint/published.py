"""Where published manifests stand in the documents they come from, and which mistakes they hold.

Their text is not part of this project: each is cut out of its document when the test runs. Some documents lost their
indentation; there `indents` says it again, a character for each line: how many times two blanks, `-` for a line that
stands for something left out.
"""

from pathlib import Path
from typing import NamedTuple

_NETOP = "nvidia-network-operator.txt"
_SPECTRUM = "spectrum-x-nv-ipam.txt"
_CHAIN = "chain-bare-metal-to-pod.txt"
_LAYERS = "layers-and-other-stacks.txt"
_SPIDER = "spiderpool-sriov.txt"


class Part(NamedTuple):
    """Lines first..last of a document."""

    first: int
    last: int
    indents: str = ""
    """Empty: the document has kept them."""
    keep: int | None = None
    """Characters of the last line that belong to the manifest; prose follows without a break."""
    shift: int = 0
    """Blanks to add to each line (less than zero: to take away)."""


class Sample(NamedTuple):
    """One manifest, or several that the document gives together."""

    id: str
    file: str
    parts: tuple[str | Part, ...]
    """Text is ours: what the document's reader is left to add."""
    values: tuple[tuple[str, str], ...] = ()
    """Shell variables that the document sets."""


class Mistake(NamedTuple):
    """One published mistake."""

    sample: str
    rule: str
    message: str
    """Part of the message."""


def text(sample: Sample, folder: Path) -> str:
    """Return the manifest of a sample with its values filled in."""
    lines = (folder / sample.file).read_text(encoding="utf-8").splitlines()
    made = "".join(part if isinstance(part, str) else _cut(part, lines) for part in sample.parts)
    for name, value in sample.values:
        made = made.replace(f"${{{name}}}", value)
    return made


def _cut(part: Part, lines: list[str]) -> str:
    chosen = lines[part.first - 1 : part.last]
    chosen[-1] = chosen[-1][: part.keep]
    if part.indents:
        pairs = zip(chosen, part.indents, strict=True)
        chosen = ["  " * int(indent) + line.strip() for line, indent in pairs if indent != "-"]
    shifted = (" " * part.shift + line if part.shift >= 0 else line[-part.shift :] for line in chosen)
    return "".join(f"{line}\n" for line in shifted)


_POLICY = "apiVersion: mellanox.com/v1alpha1\nkind: NicClusterPolicy\nmetadata: {name: nic-cluster-policy}\n"
_IMAGE = "    image: sriov-network-device-plugin\n"
_POD = """apiVersion: v1
kind: Pod
metadata:
  name: trainer
spec:
  containers:
    - name: trainer
      image: trainer
      securityContext: {capabilities: {add: [IPC_LOCK]}}
      resources: {limits: {rdma/rdma_shared_device_a: 1}}
"""
_MPI = """apiVersion: batch/v1
kind: Job
metadata: {name: nccl-tests}
spec:
  template:
    spec:
      containers:
        - name: launcher
          image: nccl-tests
          command: [bash, -c]
          args:
            - |
"""
_SHELL = (("VF_NUM", "12"), ("NIC_NAME", "eno3np2"))
_FIRST = 61
"""Of the first line of a list of networks: the bracket and one network, without the comma."""
_BARE = "apiVersion: v1\nkind: Pod\n"
_MIDDLE = tuple(f'      {{"name": "sriov-rail-{rail}"}},\n' for rail in range(2, 7))
_DAEMON_SET = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: rdma-tools}\n"
_LOCK = "          securityContext: {capabilities: {add: [IPC_LOCK]}}\n"
_CONTAINER = f"    spec:\n      containers:\n        - name: main\n          image: rdma-tools\n{_LOCK}"

_HOSTDEVICE = Part(37, 49, "0001011123332", 1)
_CIDRPOOL = Part(50, 75, "0001101111111122122-122122", 22)
_PLUGIN = (Part(76, 77, "01"), Part(78, 99, "23456667765-5666776543", 1))
_JOB = Part(100, 125, "00011012345645567888888888", 17)

GROUPS: dict[str, tuple[Sample, ...]] = {
    "routed rails": (
        Sample("hostdevice", _SPECTRUM, (_HOSTDEVICE,)),
        Sample("cidrpool", _SPECTRUM, (_CIDRPOOL,)),
        Sample("device-plugin", _SPECTRUM, (_POLICY, _PLUGIN[0], _IMAGE, _PLUGIN[1])),
    ),
    "routed job": (Sample("pytorchjob", _SPECTRUM, (_JOB,)),),
    "network operator": (
        Sample("policy", _NETOP, (Part(23, 68, "0001012222333444122223445666765431233323332333", 15),)),
        Sample("macvlan", _NETOP, (Part(71, 87, "00011012333334432", 1),)),
        Sample("ib-network", _NETOP, (Part(89, 104, "0001101233334432", 1),)),
        Sample("job", _NETOP, (Part(106, 143, "00011011234233444444444566445454545453", 20),)),
    ),
    "nccl variables": (Sample("env", _NETOP, (_POD, Part(145, 163, "3334334334334334334", 10))),),
    "nccl tests": (Sample("mpirun", _NETOP, (_MPI, Part(171, 173, "777", 53))),),
    "chain": (
        Sample("chain-policy", _CHAIN, (Part(77, 93, "00011012221234543"),)),
        Sample("node-policy", _CHAIN, (Part(100, 113, "00011011211211"),)),
        Sample("nad", _CHAIN, (Part(116, 133, "000111201233334432"),)),
    ),
    "chain pod": (Sample("pod", _CHAIN, (Part(137, 182, "0001112344444444301122344444444444234223232323"),)),),
    "layers": (Sample("eight-shares", _LAYERS, (_BARE, Part(28, 33, "012333"), *_MIDDLE, Part(35, 42, "33011344"))),),
    "same rail, InfiniBand": (
        Sample("vf-policy", _SPIDER, (Part(304, 320),), (*_SHELL, ("LINK_TYPE", "ib"))),
        Sample("ib-sriov", _SPIDER, (Part(386, 407),)),
    ),
    "same rail, Ethernet": (
        Sample("vf-policy", _SPIDER, (Part(304, 320),), (*_SHELL, ("LINK_TYPE", "eth"))),
        Sample("sriov", _SPIDER, (Part(414, 435),)),
        Sample(  # of eight networks the first, as the others are not given
            "first-network",
            _SPIDER,
            (_DAEMON_SET, Part(603, 608, keep=_FIRST, shift=-4), "          ]\n", _CONTAINER, Part(617, 619, shift=2)),
        ),
    ),
    "subnet for each node": (
        Sample("first-rail", _SPIDER, (Part(448, 460),)),
        Sample("other-rails", _SPIDER, (Part(468, 543),)),
        Sample("rail-1", _SPIDER, (Part(550, 564),)),
        Sample("rail-2", _SPIDER, (Part(579, 593),)),
    ),
    "eight networks": (
        Sample("daemonset", _SPIDER, (_DAEMON_SET, Part(603, 615, shift=-4), _CONTAINER, Part(617, 626, shift=2))),
    ),
    "partition key": (Sample("pkey", _SPIDER, (Part(722, 730, shift=-4), "    resourceName: spidernet.io/rail0\n")),),
    "injection": (
        Sample("inject", _SPIDER, (Part(755, 778, shift=-4),)),
        Sample("injected", _SPIDER, (_DAEMON_SET, Part(783, 787, shift=-4), _CONTAINER)),
    ),
    "after injection": (
        Sample("webhook-wrote", _SPIDER, (_DAEMON_SET, Part(795, 807, shift=-4), _CONTAINER, Part(809, 818, shift=2))),
    ),
    "larger mtu": (Sample("mtu", _SPIDER, (Part(825, 837),)),),
}
"""Manifests that a reader applies together; each group is linted in one run."""

MISTAKES = (
    Mistake("cidrpool", "gateway-index-differs", "gatewayIndex is 0, but entry 0"),
    Mistake("cidrpool", "one-pod-per-block", "/31"),
    Mistake("cidrpool", "route-redundant", "172.16.0.0/15"),
    Mistake("device-plugin", "json-trailing-comma", "sriovDevicePlugin.config"),
    Mistake("pytorchjob", "image-missing", "pytorch"),
    Mistake("pytorchjob", "shm-missing", "64 MiB"),
    Mistake("pytorchjob", "ipc-lock-missing", "nvidia.com/rail-1"),
    Mistake("ib-network", "network-without-resource", "ib-sriov"),
    Mistake("ib-network", "cni-name-missing", "'ib-network'"),
    Mistake("job", "rails-not-gpus", "8 GPUs share 1 network"),
    Mistake("job", "shm-missing", "64 MiB"),
    Mistake("job", "ipc-lock-missing", "rdma/rdma_shared_device_a"),
    Mistake("job", "traffic-class-unset", "NCCL_IB_HCA"),
    Mistake("job", "nccl-too-old", "24.07-py3"),
    Mistake("job", "nccl-level-number", "NCCL_NET_GDR_LEVEL=5"),
    Mistake("job", "hca-takes-all", "'mlx5'"),
    Mistake("job", "socket-ifname-rail", "'net1'"),
    Mistake("macvlan", "cni-name-missing", "'rdma-macvlan'"),
    Mistake("policy", "whereabouts-removed", "ipamPlugin"),
    Mistake("env", "traffic-class-unset", "NCCL_IB_ADAPTIVE_ROUTING"),
    Mistake("env", "nccl-level-number", "NCCL_NET_GDR_LEVEL=5"),
    Mistake("env", "hca-prefix", "'mlx5_1'"),
    Mistake("env", "socket-ifname-rail", "'net1'"),
    Mistake("mpirun", "openib-btl", "btl_openib"),
    Mistake("chain-policy", "cluster-scoped-namespace", "'nvidia-network-operator'"),
    Mistake("chain-policy", "missing-field", "spec.rdmaSharedDevicePlugin.image"),
    Mistake("pod", "shm-missing", "64 MiB"),
    Mistake("pod", "traffic-class-unset", "NCCL_IB_GID_INDEX"),
    Mistake("pod", "hca-prefix", "'mlx5_1'"),
    Mistake("pod", "gid-index-fixed", "GID index 3"),
    Mistake("eight-shares", "image-missing", "no image"),
    Mistake("eight-shares", "ipc-lock-missing", "rdma/rdma_shared_device_a"),
    Mistake("eight-shares", "shm-missing", "64 MiB"),
    Mistake("eight-shares", "shared-resource-count", "8 shares"),
    Mistake("ib-sriov", "pool-not-used", "SpiderIPPool gpu1-net11"),
    Mistake("ib-sriov", "host-bits", "172.16.11.0/16"),
    Mistake("ib-sriov", "pool-not-defined", "'gpu1-net91'"),
    Mistake("first-network", "network-resource-not-requested", "'spidernet.io/eno3np2'"),
    Mistake("first-network", "resource-not-offered", "'spidernet.io/gpu1sriov'"),
    Mistake("sriov", "host-bits", "172.16.11.0/16"),
    Mistake("sriov", "unknown-field", "spec.sriov.enableRdma"),
    Mistake("first-rail", "wrong-type", "spec.ipVersion"),
    Mistake("first-rail", "range-outside-subnet", "172.16.1.2-172.16.1.32"),
    Mistake("first-rail", "missing-field", "spec.routes[0].dst"),
    Mistake("first-rail", "missing-field", "spec.routes[0].gw"),
    Mistake("first-rail", "unknown-field", "spec.routes[0].to; did you mean 'dst'?"),
    Mistake("first-rail", "unknown-field", "spec.routes[0].via; did you mean 'gw'?"),
    Mistake("other-rails", "wrong-type", "spec.ipVersion"),
    Mistake("other-rails", "range-outside-subnet", "172.16.1.34-172.16.1.64"),
    Mistake("other-rails", "pool-not-used", "SpiderIPPool eno3np3-rail3-node1"),
    Mistake("other-rails", "wrong-type", "spec.ipVersion"),
    Mistake("other-rails", "range-outside-subnet", "172.16.1.66-172.16.1.96"),
    Mistake("other-rails", "pool-not-used", "SpiderIPPool eno3np4-rail4-node1"),
    Mistake("other-rails", "wrong-type", "spec.ipVersion"),
    Mistake("other-rails", "range-outside-subnet", "172.16.1.98-172.16.1.128"),
    Mistake("other-rails", "pool-not-used", "SpiderIPPool eno3np5-rail5-node1"),
    Mistake("other-rails", "wrong-type", "spec.ipVersion"),
    Mistake("other-rails", "range-outside-subnet", "172.16.1.130-172.16.1.160"),
    Mistake("other-rails", "pool-not-used", "SpiderIPPool eno3np6-rail6-node1"),
    Mistake("other-rails", "wrong-type", "spec.ipVersion"),
    Mistake("other-rails", "range-outside-subnet", "172.16.1.162-172.16.1.192"),
    Mistake("other-rails", "pool-not-used", "SpiderIPPool eno3np7-rail7-node1"),
    Mistake("other-rails", "wrong-type", "spec.ipVersion"),
    Mistake("other-rails", "range-outside-subnet", "172.16.1.194-172.16.1.224"),
    Mistake("other-rails", "pool-not-used", "SpiderIPPool eno3np8-rail8-node1"),
    Mistake("other-rails", "wrong-type", "spec.ipVersion"),
    Mistake("other-rails", "not-an-address", "'172.16.1.256'"),
    Mistake(
        "rail-1", "unknown-field", "spec.sriov.matchMasterSubnet; it belongs at spec.sriov.ippools.matchMasterSubnet"
    ),
    Mistake("rail-2", "unknown-field", "spec.sriov.enableRdma"),
    Mistake(
        "rail-2", "unknown-field", "spec.sriov.matchMasterSubnet; it belongs at spec.sriov.ippools.matchMasterSubnet"
    ),
    Mistake("pkey", "wrong-type", "spec.ibsriov.pkey"),
    Mistake("inject", "host-bits", "172.16.11.0/16"),
    Mistake("inject", "unknown-field", "spec.sriov.enableRdma"),
    Mistake("inject", "unknown-field", "spec.ippools; it belongs at spec.sriov.ippools"),
    Mistake("mtu", "unknown-field", "spec.sriov.enableRdma"),
)
"""Every mistake in them, and every finding that lint may have; notes stand at no mistake but are true."""
