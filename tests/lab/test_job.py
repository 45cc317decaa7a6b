"""The job of a cluster's run."""

from __future__ import annotations

from trackbed_lab.kubernetes import job

from tests.node.rails.node import FABRIC
from trackbed.fabric.model.load import load_fabric
from trackbed.fabric.plan.compute import compute_plan

PLAN = compute_plan(
    load_fabric(FABRIC.replace("  rails: 8\n", "  rails: 8\n  vfs: {count: 2}\n").encode(), "fabric.yaml").fabric, {}
)
TOLD = """\
file uverbs3
file uverbs10
device rail0v1
device rail1v0
rail rail0
rail rail1
address eth0 10.244.0.9
address rail0 10.0.0.17
address rail1 10.2.0.16
hca =rail0v1:1:0,rail1v0:1:1
rdma 0 rail0v1
rdma 1 rail1v0
user 1000 memlock unlimited
libibverbs: Warning: nonsense
"""


def test_the_job_asks_for_every_rail_on_two_nodes_as_an_unprivileged_user() -> None:
    [body] = job.build_job(PLAN, "lab/tools:1")
    [container] = body["spec"]["template"]["spec"]["containers"]
    limits = {name: int(count) for name, count in container["resources"]["limits"].items()}
    assert limits == {f"trackbed.dev/rail{rail}": 1 for rail in range(8)}
    assert container["securityContext"]["runAsUser"] == 1000
    assert body["spec"]["completions"] == 2


def test_what_a_pod_tells_is_read() -> None:
    inspection = job.PodInspection(TOLD)
    assert inspection.files == ["uverbs10", "uverbs3"]
    assert inspection.devices == ["rail0v1", "rail1v0"]
    assert inspection.rails == ["rail0", "rail1"]
    assert inspection.rdma == {0: "rail0v1", 1: "rail1v0"}
    assert inspection.addresses == {"eth0": "10.244.0.9", "rail0": "10.0.0.17", "rail1": "10.2.0.16"}
    assert inspection.hca == job.format_hca(inspection.rdma)
    assert inspection.user == "1000 memlock unlimited"


def test_traffic_goes_over_every_rail_to_the_peer_that_the_clusters_network_leads_to() -> None:
    inspection = job.PodInspection(TOLD)
    peer = job.PodInspection(TOLD.replace("10.244.0.9", "10.244.1.7").replace("10.0.0.17", "10.0.0.49"))
    script = job.render_bandwidth_client(inspection, peer)
    assert "ib_write_bw -d rail0v1 -x $(gid rail0v1 10.0.0.17) " in script
    assert "-p 18515 10.244.1.7 && break" in script
    assert "-p 18516 10.244.1.7 && break" in script
    assert "rping -c -C 3 -I 10.0.0.17 -a 10.0.0.49 " in job.render_cm_client(inspection, peer)
