"""Step firmware: the NIC's own firmware and its settings.

settings   what its flash says: VFs, link layer, ATS, the BlueField's mode, values that wait for a reset
registers  PCIe settings that the firmware leaves to the host: read requests, ordering; versions on all rails
health     what driver and sensors report: crashes, commands without answer, heat
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trackbed.doctor import hardware
from trackbed.doctor.checks.firmware import health, registers, settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.doctor.finding import Finding
    from trackbed.doctor.view import NodeView

READS = hardware.READS | settings.READS | registers.READS | health.READS


def check(view: NodeView) -> Iterator[Finding]:
    """Judge the NICs' firmware; nothing to say where the host is not this machine's own."""
    host = view.host
    if host is None:
        return
    for part in (settings, registers, health):
        yield from part.check(view, host)
