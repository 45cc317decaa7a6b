"""Step firmware: the NIC's own firmware and its settings.

settings   the NIC's flash: VFs, link layer, ATS, the BlueField's mode, values that take effect after a reset
registers  PCIe settings that the firmware leaves to the host (read requests, ordering); firmware versions of all rails
health     reports of driver and sensors: crashes, commands without a response, heat
"""

from collections.abc import Iterator

from trackbed.doctor import hardware
from trackbed.doctor.checks.firmware import health, registers, settings
from trackbed.doctor.finding import Finding
from trackbed.doctor.view import NodeView

READS = hardware.READS | settings.READS | registers.READS | health.READS
"""What these checks read of a host."""


def check(view: NodeView) -> Iterator[Finding]:
    """Check the NICs' firmware; skipped where the node shares its host."""
    host = view.host
    if host is None:
        return
    for module in (settings, registers, health):
        yield from module.check(view, host)
