"""What the agent must know of the node's ports without the journal, in a file of its own.

    known    the identity of each port, noted while it was on the host: finds it in a pod whose record is lost
    away     ports and VFs that had not come home when their pod ended, with the state that the host gives them back

The file is replaced atomically, and only when it changes. It is void after a reboot.
"""

import logging
from collections.abc import Mapping
from pathlib import Path

import msgspec

from trackbed.host.atomic import replace
from trackbed.node.rails.attachment import PORT_ITSELF, PodPort, PortIdentity
from trackbed.node.rails.store import Slot

_log = logging.getLogger(__name__)

_MAX_BYTES = 1 << 20


class _Content(msgspec.Struct, frozen=True):
    boot: str
    known: dict[int, PortIdentity] = {}
    away: tuple[PodPort, ...] = ()


class Ledger:
    """The file of a node's ports. The caller serializes changes; a mapping that was read does not change."""

    def __init__(self, path: Path, boot_id: str) -> None:
        self._path = path
        self._boot_id = boot_id
        content = _read_content(path)
        if content.boot != boot_id:
            content = _Content(boot_id)
        self._known = dict(content.known)
        self._away = {get_slot(port): port for port in content.away}

    @property
    def known(self) -> Mapping[int, PortIdentity]:
        """The identity of each port by rail."""
        return self._known

    @property
    def away(self) -> Mapping[Slot, PodPort]:
        """The ports and VFs that had not come home when their pod ended."""
        return self._away

    def note_identities(self, identities: Mapping[int, PortIdentity]) -> None:
        """Note the identities of ports, by rail, that are on the host."""
        if any(self._known.get(rail) != identity for rail, identity in identities.items()):
            self._known = {**self._known, **identities}
            self._save()

    def set_away(self, ports: Mapping[Slot, PodPort]) -> None:
        """Replace the ports and VFs that have not come home."""
        if self._away != ports:
            self._away = dict(ports)
            self._save()

    def _save(self) -> None:
        content = _Content(self._boot_id, self._known, tuple(self._away.values()))
        try:
            replace(self._path, msgspec.json.encode(content), 0o600)
        except OSError as error:
            _log.warning("%s cannot be written, a restart would forget its content: %s", self._path, error.strerror)


def get_slot(port: PodPort) -> Slot:
    """Return the rail of a port and the number of its VF."""
    return port.rail, port.host.vf if port.host else PORT_ITSELF


def _read_content(path: Path) -> _Content:
    try:
        with path.open("rb") as file:
            return msgspec.json.decode(file.read(_MAX_BYTES), type=_Content)
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:
        _log.warning("%s cannot be read: %s; ports in pods without a record stay there until these end", path, error)
    return _Content("")
