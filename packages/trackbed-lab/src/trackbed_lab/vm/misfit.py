"""Fabrics that do not fit a server: `trackbed apply` refuses them, and its network stays byte for byte."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence

from trackbed_lab.vm.channel import CommandResult

REFUSED = 2
"""The exit status of `trackbed apply`."""

_PLACE = "/run/misfit.yaml"
_FABRIC = """apiVersion: trackbed.dev/v1alpha1
kind: Fabric
metadata: {{name: misfit}}
spec:
  nodes: [{{hosts: "{nodes}"{ports}}}]
  rails: 2
  addressing: {{scheme: point-to-point, ipv4: 10.0.0.0/15}}
"""
_ABSENT_PORTS = ', ports: [{pci: "0000:f1:00.0"}, {pci: "0000:f2:00.0"}]'
_NETWORK = "ip -d addr; ip rule; ip -6 rule; ip route show table all; ip -6 route show table all"


def list_misfits(nodes: Sequence[str]) -> dict[str, str]:
    """Return what is wrong with a Fabric for these nodes -> the Fabric."""
    names = ",".join(nodes)
    return {
        "planned ports absent": _FABRIC.format(nodes=names, ports=_ABSENT_PORTS),
        "other addresses on a quarter of the rails": _FABRIC.format(nodes=names, ports=""),
    }


def render_attempt(fabric: str) -> str:
    """Return a script that applies a Fabric and ends with its status, or with 1 where the network has changed."""
    apply = shlex.join([sys.executable, "-m", "trackbed", "apply", "--yes", "-f", _PLACE])
    return f"""
network() {{ {_NETWORK}; }}
network > /run/network
cat > {_PLACE} <<'END'
{fabric}END
{apply}
status=$?
network | cmp - /run/network || exit 1
exit $status
"""


def judge_attempts(results: Sequence[tuple[str, CommandResult]]) -> tuple[str, bool]:
    """Return a summary of attempts, each with what was wrong, and whether each was refused."""
    taken = [f"{wrong}: status {result.status}" for wrong, result in results if result.status != REFUSED]
    if taken:
        return f"not refused, or the network has changed: {'; '.join(taken)}", False
    return f"{len(results)} of {len(results)} applies refused, the network is byte for byte as before", True
