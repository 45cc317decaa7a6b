"""`trackbed lint --cluster` on a real API server that holds a sound and a broken object."""

import json
import subprocess
import sys
from pathlib import Path

from trackbed_lab.kubernetes.blocking import BlockingClient

from trackbed.cluster.api.response import Object

TRACKBED = Path(sys.executable).with_name("trackbed")


def pool(name: str, subnet: str) -> Object:
    return {
        "apiVersion": "spiderpool.spidernet.io/v2beta1",
        "kind": "SpiderIPPool",
        "metadata": {"name": name},
        "spec": {"subnet": subnet, "ips": ["10.99.0.10-10.99.0.20"]},
    }


def test_a_broken_object_of_the_cluster_is_found_by_name_and_a_sound_one_is_not(
    cluster: BlockingClient, api_server: Path
) -> None:
    objects = [pool("sound", "10.99.0.0/24"), pool("host-bits", "10.98.0.5/24")]
    for manifest in objects:
        cluster.create(manifest)
    try:
        argv = [str(TRACKBED), "lint", "--cluster", "--kubeconfig", str(api_server), "-o", "json"]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    finally:
        for manifest in objects:
            cluster.delete(manifest)
    assert done.returncode == 1, done.stderr
    problems = {(problem["object"], problem["rule"]) for problem in json.loads(done.stdout)}
    assert ("SpiderIPPool host-bits", "host-bits") in problems
    assert not [title for title, _ in problems if title == "SpiderIPPool sound"]
