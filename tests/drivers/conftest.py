from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.drivers.hardware import Hardware, plug_in
from tests.drivers.port import Port
from tests.host.places import MACS, Host, host

Rig = Callable[..., tuple[Host, Hardware]]

PCI = ("0000:1a:00.0", "0000:3c:00.0")


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    """A function that makes a host whose two ports have this driver, with these settings of its model."""
    with ExitStack() as stack:

        def make(driver: type[Port], **settings: object) -> tuple[Host, Hardware]:
            place = stack.enter_context(host(tmp_path))
            ports = [
                driver(pci, bytes.fromhex(mac.replace(":", "")), **settings)  # type: ignore[arg-type] # its own fields
                for pci, mac in zip(PCI, MACS, strict=True)
            ]
            assert isinstance(place.machine.netns, Path)
            sysfs = place.machine.root / "sys"
            return place, stack.enter_context(plug_in(ports, place.machine.netns, place.far, sysfs, monkeypatch))

        yield make
