"""Step packages: drivers and libraries from a repository that the Fabric names, such as DOCA-OFED and gdrcopy.

    /etc/apt/sources.list.d/trackbed-NAME.list     the repository (sources.list(5)), signed by the key in the Fabric
    /etc/yum.repos.d/trackbed-NAME.repo            the same for dnf (dnf.conf(5))

Each package is installed in the version that the Fabric names. The step precedes firmware and drivers, because the
packages may bring the tools and modules that these need.
"""

from __future__ import annotations

from collections.abc import Iterator

from trackbed.fabric.plan.plan import NodePlan
from trackbed.host.kinds import packages
from trackbed.host.setting import Setting

STEP = "packages"


def iter_settings(node: NodePlan) -> Iterator[Setting]:
    """Yield one setting for each repository of the Fabric."""
    for repository in node.common.repositories:
        yield Setting(STEP, packages.Want(repository), None, "the Fabric names these packages and versions")
