"""The kernel between netlink messages and a port's driver: net/dcb/dcbnl.c, and VFs in net/core/rtnetlink.c."""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable

from tests.drivers.port import Port, Vf
from trackbed.kernel.netlink import codec, dcb, vfs

DCB_CMD_GDCBX, DCB_CMD_SDCBX = 22, 23
_HEADER = 4
_PAIR, _TRIPLE = struct.Struct("=II"), struct.Struct("=III")
_VLAN_INFO = struct.Struct("=III2s")
_GUID = struct.Struct("=I4xQ")
_UNREPORTED = 0xFFFFFFFF


def answer_dcb(port: Port, body: bytes) -> bytes | int:
    """Return the reply to RTM_GETDCB or RTM_SETDCB, or a negative errno (dcb_doit)."""
    if not port.has_dcb:
        return -errno.EOPNOTSUPP
    command = body[1]
    header = bytes([0, command, 0, 0])
    if command == dcb.DCB_CMD_IEEE_GET:
        return header + _fill_ieee(port, codec.as_text(codec.parse_attributes(body, _HEADER)[dcb.DCB_ATTR_IFNAME]))
    if command in {dcb.DCB_CMD_IEEE_SET, dcb.DCB_CMD_IEEE_DEL}:
        code = _set_ieee(port, body) if command == dcb.DCB_CMD_IEEE_SET else _delete_ieee(port, body)
        return header + codec.pack_u8(dcb.DCB_ATTR_IEEE, code % 256)
    if command == DCB_CMD_GDCBX:
        return header + codec.pack_u8(dcb.DCB_ATTR_DCBX, port.dcbx)
    if command == DCB_CMD_SDCBX:
        mode = codec.as_int(codec.parse_attributes(body, _HEADER).get(dcb.DCB_ATTR_DCBX))
        code = port.set_dcbx(mode)
        return code if code < 0 else header + codec.pack_u8(dcb.DCB_ATTR_DCBX, code)
    return -errno.EOPNOTSUPP


def _fill_ieee(port: Port, name: str) -> bytes:
    ets, pfc = port.get_ets(), port.get_pfc()
    messages = [dcb.build_add_apps(name, port.apps)]
    messages += [dcb.build_set_ets(name, ets)] if ets else []
    messages += [dcb.build_set_pfc(name, pfc)] if pfc else []
    inner = b"".join(bytes(codec.parse_attributes(message.body, _HEADER)[dcb.DCB_ATTR_IEEE]) for message in messages)
    return (
        codec.pack_string(dcb.DCB_ATTR_IFNAME, name)
        + codec.pack_nested(dcb.DCB_ATTR_IEEE, inner)
        + codec.pack_u8(dcb.DCB_ATTR_DCBX, port.dcbx)
    )


def _set_ieee(port: Port, body: bytes) -> int:
    """Take ETS, PFC, APP and trust in the order of dcbnl_ieee_set; what driver or kernel refuses ends the message."""
    wanted = dcb.parse_dcb(body)
    if wanted.ets and (code := port.set_ets(wanted.ets)):
        return code
    if wanted.pfc and (code := port.set_pfc(wanted.pfc)):
        return code
    for app in wanted.apps:
        if code := port.add_app(app):
            return code
    return 0 if wanted.trust is None else -errno.EOPNOTSUPP


def _delete_ieee(port: Port, body: bytes) -> int:
    for app in dcb.parse_dcb(body).apps:
        if code := port.delete_app(app):
            return code
    return 0


def set_vf(port: Port, attributes: dict[int, memoryview]) -> int:
    """Take the settings of one IFLA_VF_INFO (do_setvfinfo): 0 or a negative errno."""
    code = -errno.EINVAL
    for attribute_type, setter in _SETTERS:
        if attribute_type not in attributes:
            continue
        code = setter(port, bytes(attributes[attribute_type]))
        if code < 0 or attribute_type in {vfs.IFLA_VF_IB_NODE_GUID, vfs.IFLA_VF_IB_PORT_GUID}:
            return code
    return code


def _set_mac(port: Port, value: bytes) -> int:
    return port.set_vf(int.from_bytes(value[:4], "little"), "mac", value[4 : 4 + len(port.mac)])


def _set_vlan(port: Port, value: bytes) -> int:
    number, vlan, qos = _TRIPLE.unpack(value)
    return port.set_vf(number, "vlan", (vlan, qos, vfs.ETH_P_8021Q))


def _set_vlan_list(port: Port, value: bytes) -> int:
    for attribute_type, info in codec.iter_attributes(value):
        if attribute_type == vfs.IFLA_VF_VLAN_INFO:
            number, vlan, qos, protocol = _VLAN_INFO.unpack_from(info)
            return port.set_vf(number, "vlan", (vlan, qos, int.from_bytes(protocol, "big")))
    return -errno.EINVAL


def _set_rates(port: Port, value: bytes) -> int:
    number, lowest, highest = _TRIPLE.unpack(value)
    return -errno.EINVAL if 0 < highest < lowest else port.set_vf(number, "rates", (lowest, highest))


def _set_switch(name: str) -> Callable[[Port, bytes], int]:
    def set_switch(port: Port, value: bytes) -> int:
        number, setting = _PAIR.unpack(value)
        return port.set_vf(number, name, bool(setting))

    return set_switch


def _set_link_state(port: Port, value: bytes) -> int:
    number, state = _PAIR.unpack(value)
    return port.set_vf(number, "link_state", state)


def _set_guid(name: str) -> Callable[[Port, bytes], int]:
    def set_guid(port: Port, value: bytes) -> int:
        number, guid = _GUID.unpack(value)
        return port.set_vf(number, name, guid) if port.infiniband else -errno.EOPNOTSUPP

    return set_guid


_SETTERS: tuple[tuple[int, Callable[[Port, bytes], int]], ...] = (
    (vfs.IFLA_VF_MAC, _set_mac),
    (vfs.IFLA_VF_VLAN, _set_vlan),
    (vfs.IFLA_VF_VLAN_LIST, _set_vlan_list),
    (vfs.IFLA_VF_RATE, _set_rates),
    (vfs.IFLA_VF_SPOOFCHK, _set_switch("spoof_check")),
    (vfs.IFLA_VF_LINK_STATE, _set_link_state),
    (vfs.IFLA_VF_TRUST, _set_switch("trust")),
    (vfs.IFLA_VF_IB_NODE_GUID, _set_guid("node_guid")),
    (vfs.IFLA_VF_IB_PORT_GUID, _set_guid("port_guid")),
)
"""In the order of do_setvfinfo."""


def fill_vfs(port: Port) -> bytes:
    """Return IFLA_NUM_VF and IFLA_VFINFO_LIST (rtnl_fill_vf)."""
    infos = b"".join(_fill_vf(port, port.report_vf(vf.number)) for vf in port.vfs)
    return codec.pack_u32(vfs.IFLA_NUM_VF, len(port.vfs)) + codec.pack_attribute(vfs.IFLA_VFINFO_LIST, infos)


def _fill_vf(port: Port, vf: Vf) -> bytes:
    reported = port.vf_reports
    mac = port.mac if port.infiniband else vf.mac
    vlan, qos, _ = vf.vlan
    parts = [
        codec.pack_attribute(vfs.IFLA_VF_MAC, struct.pack("=I32s", vf.number, mac)),
        codec.pack_attribute(vfs.IFLA_VF_VLAN, _TRIPLE.pack(vf.number, vlan, qos)),
        codec.pack_attribute(vfs.IFLA_VF_RATE, _TRIPLE.pack(vf.number, *vf.rates)),
        codec.pack_attribute(
            vfs.IFLA_VF_SPOOFCHK,
            _PAIR.pack(vf.number, int(vf.spoof_check) if "spoof_check" in reported else _UNREPORTED),
        ),
        codec.pack_attribute(
            vfs.IFLA_VF_LINK_STATE, _PAIR.pack(vf.number, vf.link_state if "link_state" in reported else 0)
        ),
        codec.pack_attribute(
            vfs.IFLA_VF_TRUST, _PAIR.pack(vf.number, int(vf.trust) if "trust" in reported else _UNREPORTED)
        ),
    ]
    if port.infiniband:
        parts += [
            codec.pack_attribute(vfs.IFLA_VF_IB_NODE_GUID, _GUID.pack(vf.number, vf.node_guid)),
            codec.pack_attribute(vfs.IFLA_VF_IB_PORT_GUID, _GUID.pack(vf.number, vf.port_guid)),
        ]
    return codec.pack_attribute(vfs.IFLA_VF_INFO, b"".join(parts))
