"""The chart: what helm makes of it, and what it says in its own files."""

from __future__ import annotations

import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from trackbed.cluster.api.response import Object

CHART = Path(__file__).parents[2] / "charts" / "trackbed"
NAMESPACE = "trackbed-system"
RELEASE = "rails"
VERSION = "1.36.3"
REPOSITORY = "localhost/trackbed/agent"
"""Where the tests' image is, which no one pulls; the chart names none."""

EVERYTHING: dict[str, Any] = {
    "image": {"digest": f"sha256:{'0' * 64}"},
    "imagePullSecrets": [{"name": "registry"}],
    "controller": {
        "replicas": 3,
        "stacks": ["sriov-operator", "spiderpool"],
        "nodeSelector": {"site/role": "services"},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "affinity": {"nodeAffinity": {}},
    },
    "webhook": {
        "hostNetwork": True,
        "port": 9443,
        "metricsPort": 9080,
        "url": "https://10.0.0.1:9443",
        "clientAuthorities": "api-servers",
    },
    "prepare": {"nodeSelector": {"site/gpu": "true"}, "affinity": {"nodeAffinity": {}}},
    "agent": {"nodeSelector": {"site/gpu": "true"}, "affinity": {"nodeAffinity": {}}},
    "proof": {"enabled": True, "fabric": "train", "image": "localhost/proof:1", "namespace": "default", "taint": True},
    "networkPolicy": {"apiServerPorts": [443, 6443]},
    "monitoring": {"serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}}},
    "uninstall": {"keepLocks": True},
}
"""Every value that changes what is rendered, cert-manager's aside: its kinds are not on the tests' API server."""
NOTHING: dict[str, Any] = {
    "crds": {"enabled": False},
    "agent": {"enabled": False},
    "networkPolicy": {"enabled": False},
}
"""Nothing that can be left out."""


def run(program: str, *words: str, values: dict[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
    """Run helm; `values` go by standard input."""
    options = ["--values", "-"] if values is not None else []
    image = {"repository": REPOSITORY, **(values or {}).get("image", {})}
    text = json.dumps({**(values or {}), "image": image})
    return subprocess.run(
        [program, *words, *options], input=text, capture_output=True, text=True, timeout=120, check=False
    )


def rendered(program: str, values: dict[str, Any] | None = None, version: str = VERSION) -> list[Object]:
    """All objects of a release, those of hooks included."""
    words = ("template", RELEASE, str(CHART), "--namespace", NAMESPACE, "--kube-version", version)
    done = run(program, *words, values=values or {})
    assert not done.returncode, done.stderr
    return [body for body in yaml.safe_load_all(done.stdout) if body]


def only(objects: list[Object], kind: str, name: str) -> Object:
    """The one object of a kind and name."""
    [body] = [candidate for candidate in objects if (candidate["kind"], candidate["metadata"]["name"]) == (kind, name)]
    return body


@cache
def metadata() -> dict[str, Any]:
    """Chart.yaml."""
    return dict(yaml.safe_load((CHART / "Chart.yaml").read_text()))
