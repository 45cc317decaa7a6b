"""ip(8) and dcb(8) as far as the boot script calls them, on the model instead of the kernel (iproute2 v6.19).

They run in the test's process. A stub on the script's PATH hands its arguments over by a file of the model's sysfs.
What they print and how they end is that of ip/ipaddress.c and dcb/*.c; `dcb app replace` succeeds whatever the driver
says (dcb_cmd_app_replace of dcb/dcb_app.c).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.drivers import rtnetlink
from tests.drivers.fuse import Attribute, Node
from tests.drivers.hardware import Hardware
from tests.drivers.port import Port, Vf
from tests.drivers.wire import KernelSocket
from trackbed.kernel.netlink import codec, dcb, links, vfs
from trackbed.kernel.netlink.codec import Message
from trackbed.kernel.netlink.dcb import App, Dcb, EightInts, Ets, Pfc

_STUB = """#!/bin/sh
printf '%s\\n' {name} "$@" >{folder}/call
cat {folder}/errors >&2
cat {folder}/output
exit "$(cat {folder}/status)"
"""
_ALGORITHMS = {"strict": 0, "cbs": 1, "ets": 2, "vendor": 255}
_DCBX = {"host": 1, "lld-managed": 2, "cee": 4, "ieee": 8, "static": 16}
_STATES = ("auto", "enable", "disable")


class RefusedError(Exception):
    """A program that fails: what it prints, and its exit status."""

    def __init__(self, text: str, status: int = 1) -> None:
        super().__init__(text)
        self.text, self.status = text, status


@dataclass
class Programs:
    """The programs of a host with these NICs; `calls` has the arguments of each call that sets something."""

    hardware: Hardware
    output: str = ""
    errors: str = ""
    status: int = 0
    calls: list[str] = field(default_factory=list)

    def install(self, folder: Path, root: Path) -> None:
        """Put the stubs into a folder, and their files below the model's sysfs at `root`."""
        files: dict[str, Node] = {
            "call": Attribute(lambda: "", self._run),
            "output": Attribute(lambda: self.output),
            "errors": Attribute(lambda: self.errors),
            "status": Attribute(lambda: f"{self.status}\n"),
        }
        self.hardware.extra["programs"] = files
        for name in ("ip", "dcb"):
            place = folder / name
            place.write_text(_STUB.format(name=name, folder=root / "sys/programs"))
            place.chmod(0o755)

    def _run(self, text: str) -> None:
        program, *words = text.splitlines()
        if {"set", "replace"} & set(words):
            self.calls.append(" ".join([program, *words]))
        self.output, self.errors, self.status = "", "", 0
        try:
            self.output = self._run_ip(words) if program == "ip" else self._run_dcb(words)
        except RefusedError as error:
            self.errors, self.status = f"{error.text}\n", error.status

    def _run_ip(self, words: Sequence[str]) -> str:
        port = self._find_port(words)
        if words[:2] == ["link", "show"]:
            return _show_link(port, words[3])
        if "vf" in words:
            _set_vf(port, words)
        elif words[-1] == "up":
            entry = self.hardware.list_names()[port.pci]
            with KernelSocket(self.hardware.namespace) as sock:
                sock.send([links.build_set_link(entry[1], up=True)])
        return ""

    def _find_port(self, words: Sequence[str]) -> Port:
        name = words[words.index("dev") + 1]
        for pci, (netdev, _, _) in self.hardware.list_names().items():
            port = self.hardware.find_port(pci)
            if netdev == name and port is not None:
                return port
        raise RefusedError(f'Cannot find device "{name}"')

    def _run_dcb(self, words: Sequence[str]) -> str:
        words = [word for word in words if word != "-N"]
        port = self._find_port(words)
        if not port.has_dcb:
            raise RefusedError("RTNETLINK answers: Operation not supported")
        target, command, *arguments = words
        present = _read_dcb(port)
        if command == "show":
            return _SHOW[target](present, arguments[2:])
        return _SET[target](port, present, arguments[2:])


def _read_dcb(port: Port) -> Dcb:
    reply = rtnetlink.answer_dcb(port, bytes([0, dcb.DCB_CMD_IEEE_GET, 0, 0]) + codec.pack_string(1, "x"))
    assert isinstance(reply, bytes)
    return dcb.parse_dcb(reply)


def _send_dcb(port: Port, message: Message) -> None:
    reply = rtnetlink.answer_dcb(port, message.body)
    assert isinstance(reply, bytes)
    code = int.from_bytes(codec.parse_attributes(reply, 4)[dcb.DCB_ATTR_IEEE], "little", signed=True)
    if code:
        raise RefusedError(f"Attribute write: {os.strerror(-code)}")


def _show_apps(present: Dcb, _: Sequence[str]) -> str:
    pairs = [f"{app.protocol}:{app.priority}" for app in present.apps if app.selector == 5]
    return f"dscp-prio {' '.join(pairs)} \n" if pairs else ""


def _show_ets(present: Dcb, words: Sequence[str]) -> str:
    assert present.ets is not None
    if words == ["ets-cap"]:
        return f"ets-cap {present.ets.capacity} \n"
    return "prio-tc " + " ".join(f"{number}:{its}" for number, its in enumerate(present.ets.classes)) + " \n"


def _show_pfc(present: Dcb, _: Sequence[str]) -> str:
    assert present.pfc is not None
    switches = (f"{number}:{'on' if number in present.pfc.priorities else 'off'}" for number in range(8))
    return f"pfc-cap {present.pfc.capacity} macsec-bypass off delay 0\nprio-pfc {' '.join(switches)} \n"


def _show_dcbx(present: Dcb, _: Sequence[str]) -> str:
    return "".join(f"{name} " for name, bit in _DCBX.items() if (present.dcbx or 0) & bit) + "\n"


def _show_apptrust(present: Dcb, _: Sequence[str]) -> str:
    if present.trust is None:
        raise RefusedError("Attribute not found: Operation not supported")
    return "order: " + "".join("dscp " if selector == 5 else "pcp " for selector in present.trust) + "\n"


def _set_ets(port: Port, present: Dcb, words: Sequence[str]) -> str:
    assert present.ets is not None
    tables: dict[str, EightInts] = {
        "tc-tsa": present.ets.algorithms,
        "tc-bw": present.ets.tx_bandwidth,
        "prio-tc": present.ets.classes,
    }
    table = ""
    for word in words:
        if word in tables:
            table = word
            continue
        key, value = word.split(":")
        number = _ALGORITHMS[value] if table == "tc-tsa" else int(value)
        tables[table] = _map(tables[table], key, number)
    ets: Ets = present.ets._replace(
        algorithms=tables["tc-tsa"], tx_bandwidth=tables["tc-bw"], classes=tables["prio-tc"]
    )
    _send_dcb(port, dcb.build_set_ets("x", ets))
    return ""


def _map(table: EightInts, key: str, number: int) -> EightInts:
    a, b, c, d, e, f, g, h = (number if key in {"all", str(place)} else present for place, present in enumerate(table))
    return a, b, c, d, e, f, g, h


def _set_pfc(port: Port, present: Dcb, words: Sequence[str]) -> str:
    assert present.pfc is not None
    priorities = set(present.pfc.priorities)
    for word in words[1:]:
        key, value = word.split(":")
        named = set(range(8)) if key == "all" else {int(key)}
        priorities = priorities | named if value == "on" else priorities - named
    pfc: Pfc = present.pfc._replace(priorities=frozenset(priorities))
    _send_dcb(port, dcb.build_set_pfc("x", pfc))
    return ""


def _replace_apps(port: Port, present: Dcb, words: Sequence[str]) -> str:
    apps = [App(5, *map(int, word.split(":"))) for word in words[1:]]
    codepoints = {app.protocol for app in apps}
    obsolete = [app for app in present.apps if app.protocol in codepoints and app not in apps]
    try:
        if missing := [app for app in apps if app not in present.apps]:
            _send_dcb(port, dcb.build_add_apps("x", missing))
        if obsolete:
            _send_dcb(port, dcb.build_delete_apps("x", obsolete))
    except RefusedError:
        return ""  # it prints the error and succeeds
    return ""


def _set_dcbx(port: Port, _: Dcb, words: Sequence[str]) -> str:
    if port.set_dcbx(sum(_DCBX[word] for word in words)):
        raise RefusedError("Attribute write: Operation not permitted")
    return ""


def _set_apptrust(*_: object) -> str:
    raise RefusedError("Attribute write: Operation not supported")


_SHOW: dict[str, Callable[[Dcb, Sequence[str]], str]] = {
    "app": _show_apps,
    "ets": _show_ets,
    "pfc": _show_pfc,
    "dcbx": _show_dcbx,
    "apptrust": _show_apptrust,
}
_SET: dict[str, Callable[[Port, Dcb, Sequence[str]], str]] = {
    "app": _replace_apps,
    "ets": _set_ets,
    "pfc": _set_pfc,
    "dcbx": _set_dcbx,
    "apptrust": _set_apptrust,
}


def _show_link(port: Port, name: str) -> str:
    kind = "infiniband" if port.infiniband else "ether"
    lines = [f"2: {name}: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc mq state UP mode DEFAULT qlen 1000"]
    lines.append(f"    link/{kind} {port.mac.hex(':')} brd ff:ff:ff:ff:ff:ff")
    lines += [_show_vf(port, port.report_vf(vf.number), kind) for vf in port.vfs]
    return "\n".join(lines) + "\n"


def _show_vf(port: Port, vf: Vf, kind: str) -> str:
    mac = port.mac if port.infiniband else vf.mac
    text = f"    vf {vf.number}     link/{kind} {mac.hex(':')} brd ff:ff:ff:ff:ff:ff"
    if "spoof_check" in port.vf_reports:
        text += f", spoof checking {'on' if vf.spoof_check else 'off'}"
    if port.infiniband:
        text += f", NODE_GUID {vf.node_guid.to_bytes(8, 'big').hex(':')}"
        text += f", PORT_GUID {vf.port_guid.to_bytes(8, 'big').hex(':')}"
    text += f", link-state {_STATES[vf.link_state]}"
    return text + (f", trust {'on' if vf.trust else 'off'}" if "trust" in port.vf_reports else "")


def _set_vf(port: Port, words: Sequence[str]) -> None:
    key, value = words[-2:]
    change = {
        "mac": lambda: vfs.VfChange(mac=value),
        "trust": lambda: vfs.VfChange(trust=value == "on"),
        "spoofchk": lambda: vfs.VfChange(spoof_check=value == "on"),
        "node_guid": lambda: vfs.VfChange(node_guid=_to_guid(value)),
        "port_guid": lambda: vfs.VfChange(port_guid=_to_guid(value)),
        "state": lambda: vfs.VfChange(link_state="auto" if value == "auto" else "enable"),
    }[key]()
    message = vfs.build_set_vf(1, int(words[words.index("vf") + 1]), change)
    info = codec.parse_attributes(codec.parse_attributes(message.body, 16)[vfs.IFLA_VFINFO_LIST])[vfs.IFLA_VF_INFO]
    code = rtnetlink.set_vf(port, codec.parse_attributes(info))
    if code < 0:
        raise RefusedError(f"RTNETLINK answers: {os.strerror(-code)}", 2)


def _to_guid(value: str) -> str:
    digits = value.replace(":", "")
    return ":".join(digits[start : start + 4] for start in range(0, 16, 4))
