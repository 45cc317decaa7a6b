"""What the tests of models send, and what they read: plain messages of netlink, plain files of sysfs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.drivers.rtnetlink import DCB_CMD_SDCBX
from tests.host.places import Host
from trackbed.kernel.netlink import codec, dcb, vfs
from trackbed.kernel.netlink.codec import Message
from trackbed.kernel.netlink.dcb import Ets, Pfc
from trackbed.kernel.netlink.sockets import BatchError, RequestError
from trackbed.kernel.netlink.vfs import VfChange

MAC = "02:1a:00:00:00:01"
STRICT = (0,) * 8
HALVES = Ets(False, 8, False, (50, 50, *(0,) * 6), (0,) * 8, (2, 2, *(0,) * 6), (0, 0, 0, 1, 0, 0, 0, 0))  # noqa: FBT003 - a field
"""Priority 3 in class 1, half of the bandwidth for each class."""
LOSSLESS = Pfc(8, frozenset({3}))


def attempt(place: Host, message: Message) -> int:
    """Return the errno with which a message is refused, also by a driver in its reply; 0: it is taken."""
    with place.machine.open_socket() as sock:
        try:
            if message.type == dcb.RTM_SETDCB:
                dcb.apply_setting(sock, message)
            else:
                sock.send([message])
        except RequestError as error:
            return error.errno
        except BatchError as error:
            return error.failures[0].errno
    return 0


def attempt_all(place: Host, messages: Iterable[Message]) -> list[int]:
    """Return what becomes of each message in turn."""
    return [attempt(place, message) for message in messages]


def set_vf(place: Host, number: int = 0, /, **fields: Any) -> int:
    """Change a VF of eth0."""
    return attempt(place, vfs.build_set_vf(place.index("eth0"), number, VfChange(**fields)))


def set_dcbx(place: Host, mode: int) -> int:
    """Set DCBX of eth0; return what the driver says: 0 or 1."""
    body = bytes([0, DCB_CMD_SDCBX, 0, 0]) + codec.pack_string(dcb.DCB_ATTR_IFNAME, "eth0")
    with place.machine.open_socket() as sock:
        reply = sock.request_one(Message(dcb.RTM_SETDCB, 0, body + codec.pack_u8(dcb.DCB_ATTR_DCBX, mode)))
    return codec.as_int(codec.parse_attributes(reply, 4)[dcb.DCB_ATTR_DCBX])


def read_dcb(place: Host) -> dcb.Dcb:
    """Read DCB of eth0."""
    with place.machine.open_socket() as sock:
        return dcb.get_dcb(sock, "eth0")


def list_vfs(place: Host) -> tuple[vfs.Vf, ...]:
    """List the VFs of eth0."""
    with place.machine.open_socket() as sock:
        return vfs.get_vfs(sock, "eth0").vfs


def write(place: Host, path: str, text: str) -> int:
    """Write a file of sysfs; return the errno with which it is refused."""
    try:
        place.machine.write_attribute(path, text)
    except OSError as error:
        return error.errno or 0
    return 0


def create_vfs(place: Host, count: int) -> int:
    """Write sriov_numvfs of eth0."""
    return write(place, "/sys/class/net/eth0/device/sriov_numvfs", f"{count}\n")


def rebind(place: Host, driver: str, pci: str = "0000:1a:00.1") -> None:
    """Take a VF from its driver, and give it back."""
    for verb in ("unbind", "bind"):
        assert write(place, f"/sys/bus/pci/drivers/{driver}/{verb}", pci) == 0


def read_vf_mac(place: Host, number: int = 0) -> str:
    """Return the address of a VF's interface."""
    (net,) = (place.machine.root / f"sys/class/net/eth0/device/virtfn{number}/net").iterdir()
    return (net / "address").read_text().strip()


def to_bytes(mac: str) -> bytes:
    return bytes.fromhex(mac.replace(":", ""))
