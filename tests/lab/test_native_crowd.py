"""Thirty pods at once on one server of a real cluster: each gets rails of its own, and all of them come back."""

from __future__ import annotations

import pytest

from tests.lab.native import raised, rounds

pytestmark = [
    pytest.mark.slow,
    pytest.mark.nightly("a cluster takes minutes"),
    pytest.mark.timeout(7000),
]

CROWD = 30
FABRIC = """\
apiVersion: trackbed.dev/v1alpha1
kind: Fabric
metadata: {name: crowd}
spec:
  nodes: [{hosts: node-0, ports: [{pci: "0000:11:00.0"}, {pci: "0000:81:00.0"}]}]
  rails: 2
  addressing: {scheme: node-subnet, ipv4: 10.64.0.0/15, ipv4NodePrefix: 26}
  rdma: {namespaceMode: shared}
  otherRanges: {docker: []}
"""


def test_thirty_pods_come_at_once_and_go_at_once(tmp_path_factory: pytest.TempPathFactory) -> None:
    with raised(tmp_path_factory.mktemp("crowd"), FABRIC, CROWD) as trial:
        for _ in rounds():
            trial.scale(CROWD)
            trial.whole()
            trial.scale(0)
            trial.empty()
