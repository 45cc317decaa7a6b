"""NICs with VFs and DCB on the ports of a test's host: real sockets but for messages that only such drivers take."""

from __future__ import annotations

import errno
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import pytest

from trackbed.host.machine import Machine
from trackbed.kernel.netlink import codec, dcb, vfs
from trackbed.kernel.netlink.codec import Message, ReceivedMessage
from trackbed.kernel.netlink.dcb import Dcb
from trackbed.kernel.netlink.exact import format_guid
from trackbed.kernel.netlink.links import IFLA_ADDRESS, IFLA_EXT_MASK, IFLA_IFNAME, RTM_GETLINK, RTM_NEWLINK, list_links
from trackbed.kernel.netlink.sockets import BatchError, Failure, Socket


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

    def keep(self, name: str, state: Dcb) -> None:
        """Set it."""
        self.bridges = self.bridges | {name: state}
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

    def request(self, message: Message) -> list[ReceivedMessage]:
        """RTM_GETLINK that asks for VFs, and DCB; the rest is the kernel's."""
        if message.type in {dcb.RTM_GETDCB, dcb.RTM_SETDCB}:
            name = codec.as_text(codec.parse_attributes(message.body, 4)[dcb.DCB_ATTR_IFNAME])
            if bridge := self._drivers.bridge(name):
                return [ReceivedMessage(message.type, 0, 1, memoryview(self._bridge(name, bridge, message.body)))]
        if message.type == RTM_GETLINK:
            attributes = codec.parse_attributes(message.body, 16)
            if codec.as_int(attributes.get(IFLA_EXT_MASK)) & vfs.RTEXT_FILTER_VF:
                body = self._virtual(codec.as_text(attributes[IFLA_IFNAME]))
                return [ReceivedMessage(RTM_NEWLINK, 0, 1, memoryview(body))]
        return super().request(message)

    def send(self, messages: Sequence[Message]) -> None:
        """RTM_NEWLINK that sets VFs; the rest is the kernel's."""
        mine = [item for item in messages if item.type == RTM_NEWLINK and 22 in codec.parse_attributes(item.body, 16)]
        super().send([item for item in messages if item not in mine])
        if mine and self._drivers.refuses:
            raise BatchError(tuple(Failure(messages.index(item), self._drivers.refuses, "") for item in mine))
        for item in mine:
            self._guard(item.body)

    def _name(self, index: int) -> str:
        return next(link.name for link in list_links(self) if link.index == index)

    def _guard(self, body: bytes) -> None:
        name = self._name(int.from_bytes(body[4:8], "little"))
        guards = codec.parse_attributes(codec.parse_attributes(codec.parse_attributes(body, 16)[22])[1])
        for kind, value in guards.items():
            number = codec.as_int(value[:4])
            change = self._drivers.guards.get((name, number), FRESH)
            self._drivers.guards[name, number] = _changed(change, kind, bytes(value[4:]))

    def _virtual(self, name: str) -> bytes:
        count = self._machine.read(f"/sys/class/net/{name}/device/sriov_numvfs")
        infos = b""
        for number in range(int(count) if isinstance(count, str) else 0):
            change = self._drivers.guards.get((name, number), FRESH)
            infos += bytes(codec.parse_attributes(vfs.build_set_vf(1, number, change).body, 16)[22])
        return bytes(16) + codec.pack_attribute(IFLA_ADDRESS, bytes(6)) + codec.pack_attribute(22, infos)

    def _bridge(self, name: str, now: Dcb, body: bytes) -> bytes:
        command = body[1]
        if command == dcb.DCB_CMD_IEEE_GET:
            return answer(now)
        if command == dcb.DCB_CMD_SDCBX:
            mode = codec.as_int(codec.parse_attributes(body, 4)[dcb.DCB_ATTR_DCBX])
            self._drivers.keep(name, replace(now, dcbx=mode or FIRMWARE))
            return body[:4] + codec.pack_u8(dcb.DCB_ATTR_DCBX, 0)
        if self._drivers.refuses:
            return body[:4] + codec.pack_u8(dcb.DCB_ATTR_IEEE, 256 - self._drivers.refuses)
        state = dcb.parse_dcb(body)
        known = set(now.apps)
        wrong = not known.issuperset(state.apps) if command == dcb.DCB_CMD_IEEE_DEL else known & set(state.apps)
        if wrong:
            code = errno.ENOENT if command == dcb.DCB_CMD_IEEE_DEL else errno.EEXIST
            return body[:4] + codec.pack_u8(dcb.DCB_ATTR_IEEE, 256 - code)
        known = known - set(state.apps) if command == dcb.DCB_CMD_IEEE_DEL else known | set(state.apps)
        trust = now.trust if state.trust is None else state.trust
        new = replace(now, ets=state.ets or now.ets, pfc=state.pfc or now.pfc, trust=trust, apps=tuple(sorted(known)))
        self._drivers.keep(name, new)
        return body[:4] + codec.pack_u8(dcb.DCB_ATTR_IEEE, 0)


FIRMWARE = dcb.DCB_CAP_DCBX_VER_IEEE
"""What mlx5 reports while its firmware negotiates."""

FRESH = vfs.VfChange(mac="00:00:00:00:00:00", trust=False, spoof_check=True)
"""A VF as its driver makes it."""


def _changed(change: vfs.VfChange, kind: int, value: bytes) -> vfs.VfChange:
    if kind == vfs.IFLA_VF_MAC:
        return change._replace(mac=value[:6].hex(":"))
    if kind in {vfs.IFLA_VF_IB_NODE_GUID, vfs.IFLA_VF_IB_PORT_GUID}:
        guid = format_guid(int.from_bytes(value[4:12], sys.byteorder))
        return change._replace(node_guid=guid) if kind == vfs.IFLA_VF_IB_NODE_GUID else change._replace(port_guid=guid)
    if kind == vfs.IFLA_VF_LINK_STATE:
        return change._replace(link_state=("auto", "enable", "disable")[value[0]])
    on = bool(codec.as_int(value[:4]))
    return change._replace(trust=on) if kind == vfs.IFLA_VF_TRUST else change._replace(spoof_check=on)


def answer(state: Dcb) -> bytes:
    """DCB_CMD_IEEE_GET's answer."""
    messages = [dcb.build_add_apps("x", state.apps)]
    messages += [dcb.build_set_ets("x", state.ets)] if state.ets else []
    messages += [dcb.build_set_pfc("x", state.pfc)] if state.pfc else []
    messages += [dcb.build_set_trust("x", state.trust)] if state.trust is not None else []
    inner = b"".join(bytes(codec.parse_attributes(item.body, 4)[dcb.DCB_ATTR_IEEE]) for item in messages)
    dcbx = b"" if state.dcbx is None else codec.pack_u8(dcb.DCB_ATTR_DCBX, state.dcbx)
    return bytes([0, dcb.DCB_CMD_IEEE_GET, 0, 0]) + codec.pack_nested(dcb.DCB_ATTR_IEEE, inner) + dcbx
