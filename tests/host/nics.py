"""NICs with VFs and DCB on the ports of a test's host: real sockets but for messages that only such drivers take."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import pytest

from trackbed.host.machine import Machine
from trackbed.kernel.netlink import codec, dcb, vfs
from trackbed.kernel.netlink.codec import Message, Received
from trackbed.kernel.netlink.dcb import Dcb
from trackbed.kernel.netlink.links import IFLA_ADDRESS, IFLA_EXT_MASK, IFLA_IFNAME, RTM_GETLINK, RTM_NEWLINK, list_links
from trackbed.kernel.netlink.sockets import BatchError, Failure, Socket

MAC = "02:00:00:00:00:11"


@dataclass
class Drivers:
    """What the drivers keep: DCB of each port, trust and spoof check of each VF, by the port's name."""

    bridges: dict[str, Dcb] = field(default_factory=dict)
    guards: dict[tuple[str, int], vfs.VfChange] = field(default_factory=dict)
    refuses: int = 0
    """An errno, for everything that is to be set."""
    file: Path | None = None
    """Where DCB is kept besides, so that it outlives the process."""

    def bridge(self, name: str) -> Dcb | None:
        """DCB of a port, None if its driver has none."""
        if self.file:
            self.bridges = msgspec.json.decode(self.file.read_bytes(), type=dict[str, Dcb])
        return self.bridges.get(name)

    def keep(self, name: str, told: Dcb) -> None:
        """Set it."""
        self.bridges = self.bridges | {name: told}
        if self.file:
            self.file.write_bytes(msgspec.json.encode(self.bridges))


def install(drivers: Drivers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every machine's sockets speak to these drivers."""
    monkeypatch.setattr(Machine, "open_socket", lambda machine: NicSocket(machine, drivers))


class NicSocket(Socket):
    """A socket whose ports have the drivers' VFs (as many as sriov_numvfs says) and DCB."""

    def __init__(self, machine: Machine, drivers: Drivers) -> None:
        super().__init__(netns=machine.netns)
        self._machine, self._drivers = machine, drivers

    def request(self, message: Message) -> list[Received]:
        """RTM_GETLINK that asks for VFs, and DCB; the rest is the kernel's."""
        if message.type in {dcb.RTM_GETDCB, dcb.RTM_SETDCB}:
            name = codec.as_text(codec.parse_attributes(message.body, 4)[dcb.DCB_ATTR_IFNAME])
            if told := self._drivers.bridge(name):
                return [Received(message.type, 0, 1, memoryview(self._bridge(name, told, message.body)))]
        if message.type == RTM_GETLINK:
            asked = codec.parse_attributes(message.body, 16)
            if codec.as_int(asked.get(IFLA_EXT_MASK)) & vfs.RTEXT_FILTER_VF:
                body = self._virtual(codec.as_text(asked[IFLA_IFNAME]))
                return [Received(RTM_NEWLINK, 0, 1, memoryview(body))]
        return super().request(message)

    def send(self, messages: Sequence[Message]) -> None:
        """RTM_NEWLINK that sets VFs; the rest is the kernel's."""
        mine = [one for one in messages if one.type == RTM_NEWLINK and 22 in codec.parse_attributes(one.body, 16)]
        super().send([one for one in messages if one not in mine])
        for one in mine:
            if self._drivers.refuses:
                raise BatchError((Failure(messages.index(one), self._drivers.refuses, ""),))
            self._guard(one.body)

    def _name(self, index: int) -> str:
        return next(link.name for link in list_links(self) if link.index == index)

    def _guard(self, body: bytes) -> None:
        name = self._name(int.from_bytes(body[4:8], "little"))
        told = codec.parse_attributes(codec.parse_attributes(codec.parse_attributes(body, 16)[22])[1])
        numbers = {kind: (codec.as_int(value[:4]), bool(codec.as_int(value[4:8]))) for kind, value in told.items()}
        for kind, (number, on) in numbers.items():
            old = self._drivers.guards.get((name, number), FRESH)
            new = old._replace(trust=on) if kind == vfs.IFLA_VF_TRUST else old._replace(spoof_check=on)
            self._drivers.guards[name, number] = new

    def _virtual(self, name: str) -> bytes:
        count = self._machine.read(f"/sys/class/net/{name}/device/sriov_numvfs")
        infos = b""
        for number in range(int(count) if isinstance(count, str) else 0):
            change = self._drivers.guards.get((name, number), FRESH)
            infos += bytes(codec.parse_attributes(vfs.set_vf(1, number, change._replace(mac=MAC)).body, 16)[22])
        return bytes(16) + codec.pack_attribute(IFLA_ADDRESS, bytes(6)) + codec.pack_attribute(22, infos)

    def _bridge(self, name: str, now: Dcb, body: bytes) -> bytes:
        command = body[1]
        if command == dcb.DCB_CMD_IEEE_GET:
            return answer(now)
        if self._drivers.refuses:
            return body[:4] + codec.pack_u8(dcb.DCB_ATTR_IEEE, 256 - self._drivers.refuses)
        told = dcb.parse_dcb(body)
        known = set(now.apps)
        wrong = not known.issuperset(told.apps) if command == dcb.DCB_CMD_IEEE_DEL else known & set(told.apps)
        if wrong:
            code = errno.ENOENT if command == dcb.DCB_CMD_IEEE_DEL else errno.EEXIST
            return body[:4] + codec.pack_u8(dcb.DCB_ATTR_IEEE, 256 - code)
        known = known - set(told.apps) if command == dcb.DCB_CMD_IEEE_DEL else known | set(told.apps)
        trust = now.trust if told.trust is None else told.trust
        new = replace(now, ets=told.ets or now.ets, pfc=told.pfc or now.pfc, trust=trust, apps=tuple(sorted(known)))
        self._drivers.keep(name, new)
        return body[:4] + codec.pack_u8(dcb.DCB_ATTR_IEEE, 0)


FRESH = vfs.VfChange(trust=False, spoof_check=True)
"""A VF as its driver makes it."""


def answer(told: Dcb) -> bytes:
    """DCB_CMD_IEEE_GET's answer."""
    messages = [dcb.add_apps("x", told.apps)]
    messages += [dcb.set_ets("x", told.ets)] if told.ets else []
    messages += [dcb.set_pfc("x", told.pfc)] if told.pfc else []
    messages += [dcb.set_trust("x", told.trust)] if told.trust is not None else []
    inner = b"".join(bytes(codec.parse_attributes(one.body, 4)[dcb.DCB_ATTR_IEEE]) for one in messages)
    dcbx = b"" if told.dcbx is None else codec.pack_u8(dcb.DCB_ATTR_DCBX, told.dcbx)
    return bytes([0, dcb.DCB_CMD_IEEE_GET, 0, 0]) + codec.pack_nested(dcb.DCB_ATTR_IEEE, inner) + dcbx
