"""Configurations that are unreadable, broken or malicious."""

from __future__ import annotations

import pytest

from tests.switches.leaves import derive_sound_leaves, plan_case
from trackbed.switches.dialect import find_mismatches
from trackbed.switches.dialects import detect_dialect
from trackbed.switches.port_config import UnreadableError


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        pytest.param(b"", "neither `nv set` commands nor a `set` mapping", id="nothing"),
        pytest.param(b"\xff\xfe\x00", "UTF-8", id="bytes"),
        pytest.param(b"hello: world", "neither `nv set` commands nor a `set` mapping", id="some YAML"),
        pytest.param(b"a: [", "YAML", id="broken YAML"),
        pytest.param(b"{", "it is not JSON", id="broken JSON"),
        pytest.param(b"{" * 100_000, "it is not JSON", id="deep JSON"),
        pytest.param(b'{"a":' * 100_000, "it is not JSON", id="deeper JSON"),
        pytest.param(b'{"VLAN": {}}', "no table PORT", id="a part only"),
        pytest.param(b'{"PORT": []}', "no table PORT", id="a list for a table"),
        pytest.param(b"nv set interface swp1-99999 link mtu 9216", "more than 4096", id="ports without end"),
        pytest.param(b"nv set " + b"a " * 100_000, "100000 words", id="a command without end"),
        pytest.param(b"nv set qos roce mode lossy-multi-tc", "does not know the classes", id="another RoCE profile"),
    ],
)
def test_what_is_no_configuration_is_refused(raw: bytes, message: str) -> None:
    with pytest.raises(UnreadableError) as caught:
        detect_dialect(raw).parse(raw)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(
            b"nv set\nnv set interface\nnv set qos mapping default-global dscp x switch-priority y", id="nvue"
        ),
        pytest.param(b"- set: {interface: {swp1: null, swp2: [a, b]}, qos: {roce: x}}", id="odd YAML"),
        pytest.param(
            b'{"PORT": {"Ethernet0": {"mtu": null}}, "PORT_QOS_MAP": {"Ethernet0": {"dscp_to_tc_map": 7}},'
            b' "DSCP_TO_TC_MAP": {"7": {"x": "y"}}, "QUEUE": {"|": {}, "Ethernet0|x-y": {}, "3": {}}}',
            id="odd JSON",
        ),
    ],
)
def test_odd_values_are_disagreements_and_no_crash(raw: bytes) -> None:
    dialect = detect_dialect(raw)
    mismatches = find_mismatches(derive_sound_leaves(dialect.name, plan_case())[0], dialect, dialect.parse(raw))
    assert "address" in {mismatch.code for mismatch in mismatches}
