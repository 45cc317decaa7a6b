"""Whatever kubelets and agents may write, `trackbed status` lists every node, and the webhook plans every Fabric."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trackbed_lab.kubernetes.blocking import BlockingClient, connect

from tests.cluster.webhook.test_cluster_watch import SPEC, own, while_followed
from tests.examples import count_examples
from tests.kinds import installed
from trackbed.cli.main import cli
from trackbed.cluster.api.errors import ApiRefusedError
from trackbed.cluster.webhook.cluster_watch import ClusterWatch

pytestmark = pytest.mark.slow
FABRIC = own("Fabric", "garbled", SPEC)
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu-0"}}
RAIL_NODE = own("RailNode", "gpu-0", {"fabric": "garbled", "slot": 0})

_TEXT = st.one_of(
    st.sampled_from(["", "Ready", "True", "\x1b[2J", "\n", "not-an-ip", "10.64.0.1/0", "2026-99-99T", "x" * 2000]),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12),
)
_STATUS = st.sampled_from(["True", "False", "Unknown"])
_NUMBER = st.integers(-(1 << 63), (1 << 63) - 1)
_QUANTITY = st.sampled_from(["0", "1", "1k", "1e3", "9223372036854775807", "1500m", "1Ei", "12E"])
_NODE_STATUS = st.fixed_dictionaries(
    {
        "conditions": st.lists(
            st.fixed_dictionaries({"type": _TEXT, "status": _TEXT, "reason": _TEXT, "message": _TEXT}), max_size=3
        ),
        "addresses": st.lists(
            st.fixed_dictionaries({"type": st.sampled_from(["InternalIP", "ExternalIP", "Odd"]), "address": _TEXT}),
            max_size=3,
            unique_by=json.dumps,
        ),
        "allocatable": st.dictionaries(st.sampled_from(["trackbed.dev/rail0", "trackbed.dev/rail1", "a/b"]), _QUANTITY),
        "capacity": st.dictionaries(st.sampled_from(["trackbed.dev/rail0", "cpu"]), _QUANTITY),
    }
)
_RAIL_NODE_STATUS = st.fixed_dictionaries(
    {
        "observedHash": _TEXT,
        "boot": _TEXT,
        "needsReboot": st.booleans(),
        "conditions": st.lists(
            st.fixed_dictionaries(
                {
                    "type": st.sampled_from(["Prepared", "Rolled", "Healthy", "RailsOffered", "Contested", ""]),
                    "status": _STATUS,
                    "reason": _TEXT,
                    "message": _TEXT,
                    "lastTransitionTime": _TEXT,
                    "observedGeneration": _NUMBER,
                }
            ),
            max_size=4,
            unique_by=lambda condition: str(condition["type"]),
        ),
        "allocations": st.lists(
            st.fixed_dictionaries({"namespace": _TEXT, "pod": _TEXT, "rails": st.lists(_NUMBER, max_size=2)}),
            max_size=2,
        ),
        "findings": st.lists(st.fixed_dictionaries({"code": _TEXT, "subject": _TEXT, "message": _TEXT}), max_size=2),
    }
)


@pytest.fixture(scope="module")
def filled(api_server: Path) -> Iterator[BlockingClient]:
    with connect(str(api_server)) as client:
        installed(client)
        for body in (FABRIC, NODE, RAIL_NODE):
            client.apply(body)
        yield client
        for body in (RAIL_NODE, NODE, FABRIC):
            client.delete(body)


def _write(client: BlockingClient, body: dict[str, Any], status: dict[str, Any], manager: str) -> None:
    """Write a status, unless the server refuses it: only what it admits is anybody's concern."""
    head = {key: body[key] for key in ("apiVersion", "kind", "metadata")}
    with suppress(ApiRefusedError):
        client.apply({**head, "status": status}, subresource="/status", manager=manager, force=True)


@settings(max_examples=count_examples(10), suppress_health_check=list(HealthCheck))
@given(_NODE_STATUS, _RAIL_NODE_STATUS)
def test_no_status_of_a_node_hides_the_others(
    filled: BlockingClient, api_server: Path, node_status: dict[str, Any], rail_node_status: dict[str, Any]
) -> None:
    _write(filled, NODE, node_status, "kubelet")
    _write(filled, RAIL_NODE, rail_node_status, "agent")
    for words in (("-o", "json"), ()):
        result = CliRunner().invoke(cli, ["status", "--kubeconfig", str(api_server), *words])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        assert result.exit_code in {0, 1}, result.output
        assert "garbled" in result.output

    async def act(source: ClusterWatch) -> None:
        await asyncio.sleep(0)
        assert source.state is not None
        assert "garbled" in source.state.fabrics, source.state.broken

    while_followed(api_server, act)
