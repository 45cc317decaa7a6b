"""What a roll-out would do, asked of a real API server; what cannot be asked yet is told so."""

from __future__ import annotations

import secrets
from pathlib import Path

from trackbed_lab.kubernetes.blocking import connect

from trackbed.cluster.api.response import Object
from trackbed.cluster.rollout.applyset import ApplySet
from trackbed.cluster.rollout.options import RunOptions
from trackbed.cluster.rollout.preview import iter_preview
from trackbed.cluster.stacks.install.steps import ApplyFile


def test_what_lacks_its_namespace_or_its_kind_is_created_once_that_is_there(api_server: Path) -> None:
    absent = f"absent-{secrets.token_hex(4)}"
    config: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": absent}}
    unknown: Object = {"apiVersion": f"{absent}.dev/v1", "kind": "Thing", "metadata": {"name": "b"}}
    step = ApplyFile(
        "", "x", [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": absent}}, config, unknown]
    )
    with connect(str(api_server)) as client:
        applyset = ApplySet(f"set-{absent}", "default")
        changes = client.collect(iter_preview(client.dynamic, applyset, RunOptions("test"), [step]))
    assert [(change.what, change.outcome) for change in changes] == [
        (f"Namespace {absent}", "created"),
        (f"ConfigMap a in {absent}", "created, once its namespace is there"),
        ("Thing b", "created, once its kind is there"),
    ]
