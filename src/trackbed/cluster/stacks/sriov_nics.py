"""NICs that the SR-IOV network operator takes, by the chart or platform that installs it, and by release.

The operator skips other NICs without an error. Source: ConfigMap supported-nic-ids, of templates/configmap.yaml in
the charts of sriov-network-operator, Spiderpool and NVIDIA's Network Operator (v26.1.2 to v26.4.1 are alike), and of
manifests/stable in the branches of openshift/sriov-network-operator.
"""

import json
from collections.abc import Iterator, Mapping

from trackbed.cluster.stacks.releases import choose_release
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.plan.plan import Plan

Nics = frozenset[str]
"""PCI vendor and device as `vendor:device`."""


def _parse_nics(devices_by_vendor: Mapping[str, str]) -> Nics:
    pairs = devices_by_vendor.items()
    return frozenset(f"{vendor}:{device}" for vendor, devices in pairs for device in devices.split())


_UPSTREAM_1_3 = _parse_nics(
    {
        "15b3": "1013 1015 1017 1019 101b 101d 101f 1021 a2d6 a2dc",
        "8086": "0d58 10c9 1563 1572 1581 1583 1589 158a 158b 1591 1592 1593 159b 15ff 188a",
        "14e4": "16d7 1750",
        "1077": "1654",
        "177d": "b100 b200 b600 b900 ba00",
        "1af4": "1000 1041",
    }
)
_UPSTREAM_1_5 = _UPSTREAM_1_3 | _parse_nics({"15b3": "1023", "8086": "124c 124d 1599"})
_UPSTREAM_1_6 = _UPSTREAM_1_5 | _parse_nics({"8086": "12d2 12d3 579c 579d 579e"})
_NVIDIA_26_1 = _UPSTREAM_1_6 | _parse_nics({"15b3": "1025", "8086": "1249 124a", "1d0f": "ec20"})
_OPENSHIFT_4_18 = _parse_nics(
    {
        "15b3": "1007 1013 1015 1017 1019 101b 101d 101f 1021 a2d6 a2dc",
        "8086": "0d58 10fb 124c 124d 1528 154d 1563 1572 1581 1583 158a 158b 1591 1592 1593 1599 159b 15ff",
        "14e4": "16d7 1750 1751",
        "1077": "1654 1656 8070",
        "177d": "b900 ba00",
        "1af4": "1000 1041",
        "1dd8": "1002",
    }
)
_OPENSHIFT_4_19 = _OPENSHIFT_4_18 | _parse_nics({"8086": "579c 579d 579e"})
_OPENSHIFT_4_20 = _OPENSHIFT_4_19 | _parse_nics({"15b3": "1023", "8086": "12d2 12d3"})
_OPENSHIFT_4_22 = _OPENSHIFT_4_20 | _parse_nics({"1d0f": "ec20"})

_CHART_NICS: dict[str, tuple[tuple[tuple[int, ...], Nics], ...]] = {
    "sriov-network-operator": (((1, 3), _UPSTREAM_1_3), ((1, 5), _UPSTREAM_1_5), ((1, 6), _UPSTREAM_1_6)),
    "nvidia-network-operator": (((26, 1), _NVIDIA_26_1),),
    "spiderpool": (((1, 2), _UPSTREAM_1_3),),
}
"""Component -> its first release with a list, and the list; in order of releases."""
_OPENSHIFT_NICS = {"4.18": _OPENSHIFT_4_18, "4.19": _OPENSHIFT_4_19, "4.20": _OPENSHIFT_4_20, "4.22": _OPENSHIFT_4_22}
"""Release of OpenShift -> the NICs that it takes, in order of releases."""
_VALUE_NAMES = {"nvidia-network-operator": "sriov-network-operator.supportedExtraNICs"}
"""Component -> the Helm value that adds NICs, where it is not supportedExtraNICs."""


def find_chart_warnings(plan: Plan, component: str) -> Iterator[Problem]:
    """Yield a problem for each NIC that the list of a chart lacks, unless Helm values of the Fabric complete it."""
    release = choose_release(plan, component)
    lists = [nics for first, nics in _CHART_NICS[component] if first <= release.number]
    written = json.dumps(dict(plan.kubernetes.values).get(component, {}))
    for nic in _list_nics(plan):
        ids = nic.replace(":", " ")
        if nic in lists[-1] or ids in written:
            continue
        yield _build_problem(
            f"the SR-IOV operator of {component} {release.version} skips NICs that its list lacks, as {nic}: add "
            f"'NAME: \"{ids} VF\"', VF being the device id of its VFs (lspci -nn), to "
            f"{_VALUE_NAMES.get(component, 'supportedExtraNICs')} in kubernetes.values.{component}",
            ("spec", "kubernetes", "values"),
        )


def find_openshift_warnings(plan: Plan) -> Iterator[Problem]:
    """Yield a problem for each NIC that some release of OpenShift skips. There are no Helm values to add a NIC."""
    newest = list(_OPENSHIFT_NICS)[-1]
    for nic in _list_nics(plan):
        releases = [release for release, nics in _OPENSHIFT_NICS.items() if nic in nics]
        if len(releases) == len(_OPENSHIFT_NICS):
            continue
        message = (
            f"OpenShift's SR-IOV operator takes NIC {nic} from release {releases[0]} on, and skips it before: see that "
            "the cluster has it"
            if releases
            else f"OpenShift's SR-IOV operator skips NICs that its list lacks, as {nic} up to release {newest}: add "
            f"'NAME: \"{nic.replace(':', ' ')} VF\"', VF being the device id of its VFs (lspci -nn), to ConfigMap "
            "supported-nic-ids in namespace openshift-sriov-network-operator, which an upgrade of the operator replaces"
        )
        yield _build_problem(message, ("spec", "nodes"))


def _list_nics(plan: Plan) -> list[str]:
    return list(dict.fromkeys(node.nic.lower() for node in plan.nodes if node.nic))


def _build_problem(message: str, path: tuple[str | int, ...]) -> Problem:
    return Problem("stack-nic-unsupported", message, path, severity="warning")
