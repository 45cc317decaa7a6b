import pytest

from tests.host.steps.fabrics import FLAT
from trackbed.fabric.model.load import load_fabric
from trackbed.fabric.plan.compute import compute_plan
from trackbed.fabric.plan.plan import Plan


def plan(ports: str, policy: str) -> Plan:
    text = f"""
apiVersion: trackbed.dev/v1alpha1
kind: Fabric
metadata: {{name: train}}
spec:
  nodes: [{{hosts: "gpu-[0-3]"{ports}}}]
  rails: 2
  addressing: {FLAT}
  kubelet: {{topologyManager: {policy}}}
"""
    return compute_plan(load_fabric(text.encode(), "fabric.yaml").fabric, {})


TWO_SOCKETS = ', ports: ["0000:18:00.0", "0000:9a:00.0"]'


@pytest.mark.parametrize("policy", ["restricted", "single-numa-node"])
def test_rails_on_two_sockets_under_a_strict_policy_are_warned_of(policy: str) -> None:
    (warning,) = plan(TWO_SOCKETS, policy).warnings
    assert (warning.code, warning.severity) == ("rails-on-two-sockets", "warning")
    assert f"PCI buses 18 and 9a), and under {policy} kubelet refuses" in warning.message


@pytest.mark.parametrize(
    ("ports", "policy"),
    [
        pytest.param(TWO_SOCKETS, "best-effort", id="a policy that prefers only"),
        pytest.param(', ports: ["0000:18:00.0", "0000:4f:00.0"]', "single-numa-node", id="one socket"),
        pytest.param("", "single-numa-node", id="ports whose PCI address is unknown"),
    ],
)
def test_rails_that_a_pod_can_take_together_are_not_warned_of(ports: str, policy: str) -> None:
    assert plan(ports, policy).warnings == ()
