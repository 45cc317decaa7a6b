"""Calls of others' CNI plugins, as a runtime calls them, in a network namespace of their own."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from trackbed_lab.kubernetes import build
from trackbed_lab.kubernetes.programs import Program
from trackbed_lab.kubernetes.stack_faults import PluginRun

_PLUGINS = "github.com/containernetworking/plugins/plugins"
STANDARD = (
    *(Program(name, "cni", f"{_PLUGINS}/main/{name}") for name in ("host-device", "macvlan", "loopback")),
    Program("host-local", "cni", f"{_PLUGINS}/ipam/host-local"),
)
"""The standard plugins that the faults of other stacks need."""
_STANDARD_FOLDER = "std/"
POD = {"K8S_POD_NAMESPACE": "default", "K8S_POD_NAME": "train-0"}


def find_plugin(name: str) -> Path:
    """The executable of a plugin; skips where others' programs are not there."""
    if name.startswith(_STANDARD_FOLDER):
        return build.build_programs(STANDARD, print) / name.removeprefix(_STANDARD_FOLDER)
    folder = os.environ.get("TRACKBED_PROGRAMS")
    if not folder:
        pytest.skip("TRACKBED_PROGRAMS names the folder of other stacks' programs")
    return Path(folder) / "bin" / name


def call_plugin(run: PluginRun, config: dict[str, Any], pod_uid: str = "1") -> str:
    """Call a plugin with ADD in a new network namespace; return the message with which it fails."""
    plugin = find_plugin(run.plugin)
    standard = build.build_programs(STANDARD, print)
    arguments = ";".join(
        f"{key}={value}" for key, value in {"IgnoreUnknown": "1", **POD, "K8S_POD_UID": pod_uid}.items()
    )
    environment = {
        "CNI_COMMAND": "ADD",
        "CNI_CONTAINERID": "trackbedtest",
        "CNI_IFNAME": "net1",
        "CNI_PATH": f"{plugin.parent}:{standard}",
        "CNI_ARGS": arguments,
        "PATH": os.environ["PATH"],
    }
    prepare = ""
    if run.parent:
        prepare = (
            "ip link add tbparent type veth peer name tbpeer && ip link add tbbridge type bridge && "
            "ip link set tbparent master tbbridge && "
        )
    # The outer namespace is the host of the call, the inner one that of the pod.
    script = (
        "mount -t tmpfs none /run && mkdir -p /run/netns && "
        f"ip netns add pod && {prepare}CNI_NETNS=/run/netns/pod exec '{plugin}'"
    )
    needs_cluster = "kubeconfig" in json.dumps(config)
    argv = ["unshare", *([] if needs_cluster else ["--net"]), "--mount", "sh", "-c", script]
    document = json.dumps({"cniVersion": "0.4.0", "name": "rail0", **config})
    done = subprocess.run(
        argv, input=document, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1, (done.returncode, done.stdout, done.stderr)
    return str(json.loads(done.stdout)["msg"])
