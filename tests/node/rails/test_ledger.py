"""The file of the node's ports."""

from __future__ import annotations

from pathlib import Path

import pytest

from trackbed.node.rails.attachment import HostPort, PodPort, PortIdentity
from trackbed.node.rails.ledger import Ledger

IDENTITY = PortIdentity(parent_device="0000:3b:00.0", permanent_mac="b8:ce:f6:00:00:01")
AWAY = PodPort(
    3, "rail3", "b8:ce:f6:00:00:01", 9000, host=HostPort("rail3", 7, 9000, up=True, conf={}, identity=IDENTITY)
)


def test_a_restarted_agent_knows_ports_and_what_is_away(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ports", "boot")
    ledger.note_identities({3: IDENTITY})
    ledger.set_away({(3, -1): AWAY})
    again = Ledger(tmp_path / "ports", "boot")
    assert (again.known, again.away) == ({3: IDENTITY}, {(3, -1): AWAY})
    again.set_away({})
    assert Ledger(tmp_path / "ports", "boot").away == {}


def test_after_a_reboot_nothing_is_known(tmp_path: Path) -> None:
    Ledger(tmp_path / "ports", "boot").note_identities({3: IDENTITY})
    assert Ledger(tmp_path / "ports", "another boot").known == {}


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"boot":"boot","known":{"x":1}}', b" " * (2 << 20) + b"{}"])
def test_a_damaged_file_is_taken_as_empty(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "ports").write_bytes(content)
    ledger = Ledger(tmp_path / "ports", "boot")
    assert (ledger.known, ledger.away) == ({}, {})
    ledger.note_identities({3: IDENTITY})
    assert Ledger(tmp_path / "ports", "boot").known == {3: IDENTITY}


def test_a_file_that_cannot_be_written_is_told_and_the_agent_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "ports").mkdir()
    ledger = Ledger(tmp_path / "ports", "boot")
    ledger.note_identities({3: IDENTITY})
    assert ledger.known == {3: IDENTITY}
    assert "cannot be written, a restart would forget its content" in caplog.text
