"""The CNI protocol as the executable hands it on: bytes to a checked Request, and an answer back to bytes.

    request   4 bytes length, then CNI_NAME=value NUL ... NUL, then the network configuration as the runtime gave it
    answer    4 bytes length, 1 byte exit status, then what to print; numbers are big-endian

What arrives is not trusted: every length, name and type is checked here, with the words the runtime will log, before
anything else sees it. Follows the CNI specification 1.1, sections 1 and 2.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final, NamedTuple

import msgspec

from trackbed.node.rails.attachment import MODES, Key
from trackbed.node.rails.errors import CniError, Code

VERSIONS: Final = ("1.0.0", "1.1.0")
MAX_CONFIG_BYTES: Final = 1 << 20
MAX_FRAME_BYTES: Final = MAX_CONFIG_BYTES + (1 << 17)
"""The configuration, and a runtime's environment (Linux allows one variable 128 KiB)."""
STATUS_REQUEST: Final = "TRACKBED_STATUS"
"""The variable by which `trackbed agent status` asks; the executable hands on only those that begin with CNI_."""

COMMANDS: Final = ("ADD", "DEL", "CHECK", "GC", "STATUS", "VERSION")
_WITH_CONTAINER: Final = ("ADD", "DEL", "CHECK")
_NAME: Final = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.\-]*")
_MAX_NAME: Final = 255
_POD_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.\-]*[a-z0-9])?")
_MAX_POD_NAME: Final = 253  # RFC 1123, as the API server has it
_MAX_PATH: Final = 4095  # PATH_MAX of include/uapi/linux/limits.h, without the NUL
_MAX_IFNAME: Final = 15  # IFNAMSIZ - 1
_OURS: Final = ("mode", "rails")
_ANYBODYS: Final = (
    *("cniVersion", "cniVersions", "name", "type", "prevResult", "args", "runtimeConfig", "capabilities", "dns"),
    *("disableCheck", "disableGC", "loadOnlyInlinedPlugins"),
)

Json = dict[str, Any]


class PodName(NamedTuple):
    """What Kubernetes calls a pod by."""

    namespace: str
    name: str


class CniRequest(NamedTuple):
    """One call of a runtime. `key` and `netns` are ("", "") and "" for a command without container."""

    command: str
    version: str
    key: Key
    netns: str
    network: str
    config: Json
    pod: PodName | None = None
    """Of a kubelet's runtime; None for any other."""

    @property
    def previous(self) -> Json | None:
        """The result of the plugins before this one in a chain."""
        return self.config.get("prevResult")


class RailRequest(NamedTuple):
    """What an ADD asks for; None: as the plan says."""

    mode: str | None
    rails: tuple[int, ...] | None


def split_request(body: bytes) -> tuple[dict[str, str], bytes]:
    """Take a request's body apart into environment and configuration; CniError where it is malformed."""
    names, separator, config = body.partition(b"\0\0") if not body.startswith(b"\0") else (b"", b"\0", body[1:])
    if not separator:
        raise CniError(Code.INPUT, "the request has no end of its environment", "is the executable of this version?")
    if len(config) > MAX_CONFIG_BYTES:
        raise CniError(Code.INPUT, f"the network configuration is longer than {MAX_CONFIG_BYTES} bytes")
    try:
        pairs = [entry.partition("=") for entry in names.decode().split("\0")]
    except UnicodeDecodeError as error:
        raise CniError(Code.ENVIRONMENT, f"the environment is not UTF-8: {error.reason}") from error
    return {name: value for name, _, value in pairs}, config


def parse_request(environment: Mapping[str, str], config: bytes) -> CniRequest:
    """Check a call; CniError says what is wrong with it."""
    command = environment.get("CNI_COMMAND", "")
    if command not in COMMANDS:
        raise _environment("CNI_COMMAND", command, f"it must be one of {', '.join(COMMANDS)}")
    read = _config(config)
    version = _version(read)
    if command == "VERSION":
        return CniRequest(command, version, ("", ""), "", "", read)
    network = _network(read)
    if command not in _WITH_CONTAINER:
        return CniRequest(command, version, ("", ""), "", network, read)
    key = _container(environment.get("CNI_CONTAINERID", "")), _ifname(environment.get("CNI_IFNAME", ""))
    netns = _netns(environment.get("CNI_NETNS", ""), needed=command != "DEL")
    _check_previous(read)
    return CniRequest(command, version, key, netns, network, read, _pod(environment.get("CNI_ARGS", "")))


def parse_rail_request(config: Json) -> RailRequest:
    """What an ADD's configuration asks for; CniError on a field or value that is none of ours."""
    for name in config:
        if name not in _OURS and name not in _ANYBODYS and not name.startswith("cni.dev/"):
            close = get_close_matches(name, _OURS, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else f"; Trackbed knows {' and '.join(_OURS)}"
            raise CniError(Code.UNSUPPORTED_FIELD, f"{name}: {_short(config[name])} is no field of Trackbed{hint}")
    mode = config.get("mode")
    if mode is not None and mode not in MODES:
        raise _invalid("mode", mode, f"it must be one of {', '.join(MODES)}, or left out")
    return RailRequest(mode, _rails(config.get("rails")))


def parse_valid_attachments(config: Json) -> frozenset[Key] | None:
    """The attachments that a GC leaves alone; None where there is no list, as from cnitool: all are left alone then.

    Raises CniError where it is no list.
    """
    field = "cni.dev/valid-attachments"
    if field not in config:
        return None
    listed = config[field]
    if not isinstance(listed, list):
        raise _invalid(field, listed, "it must be the list of attachments that are still valid")
    return frozenset(_key(f"{field}[{at}]", entry) for at, entry in enumerate(listed))


def encode_answer(status: int, text: bytes) -> bytes:
    """The bytes that make the executable print `text` and exit with `status`."""
    return len(text).to_bytes(4, "big") + bytes([status]) + text


def encode_error(error: CniError, version: str) -> bytes:
    """An error as the runtime wants it."""
    document = {"cniVersion": version, "code": int(error.code), "msg": error.message}
    return msgspec.json.encode(document | ({"details": error.details} if error.details else {}))


def _key(field: str, entry: object) -> Key:
    named = entry if isinstance(entry, dict) else {}
    container, ifname = named.get("containerID"), named.get("ifname")
    if not isinstance(container, str) or not isinstance(ifname, str):
        raise _invalid(field, entry, "it must have containerID and ifname")
    return container, ifname


def _config(raw: bytes) -> Json:
    try:
        read = msgspec.json.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise CniError(Code.DECODE, f"the network configuration is no JSON: {error}") from error
    if not isinstance(read, dict):
        raise CniError(Code.DECODE, f"the network configuration is no object but {_short(read)}")
    return read


def _version(config: Json) -> str:
    version = config.get("cniVersion")
    if version not in VERSIONS:
        message = f"cniVersion {_short(version)} is not supported; Trackbed speaks {' and '.join(VERSIONS)}"
        raise CniError(Code.VERSION, message)
    return str(version)


def _network(config: Json) -> str:
    name = config.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > _MAX_NAME:
        raise _invalid("name", name, f"it must be 1 to {_MAX_NAME} letters, digits, '_', '.' or '-'")
    return name


def _container(value: str) -> str:
    if not _NAME.fullmatch(value) or len(value) > _MAX_NAME:
        rule = f"it must be 1 to {_MAX_NAME} letters, digits, '_', '.' or '-', a letter or digit first"
        raise _environment("CNI_CONTAINERID", value, rule)
    return value


def _pod(arguments: str) -> PodName | None:
    """The pod that CNI_ARGS names, as kubelets' runtimes do: K8S_POD_NAMESPACE=...;K8S_POD_NAME=...;..."""
    given = dict(pair.partition("=")[::2] for pair in arguments.split(";"))
    names = given.get("K8S_POD_NAMESPACE", ""), given.get("K8S_POD_NAME", "")
    if not any(names):
        return None
    if not all(_POD_NAME.fullmatch(name) and len(name) <= _MAX_POD_NAME for name in names):
        raise _environment("CNI_ARGS", arguments, "K8S_POD_NAMESPACE and K8S_POD_NAME must be names of Kubernetes")
    return PodName(*names)


def _ifname(value: str) -> str:
    if not 0 < len(value.encode()) <= _MAX_IFNAME or value in {".", ".."} or re.search(r"[/:\s]", value):
        raise _environment("CNI_IFNAME", value, f"it must have 1 to {_MAX_IFNAME} bytes without '/', ':' and blanks")
    return value


def _netns(value: str, *, needed: bool) -> str:
    if value.startswith("/") and len(value.encode()) <= _MAX_PATH:
        return value
    if not value and not needed:
        return value
    raise _environment("CNI_NETNS", value, "it must be the absolute path of the container's network namespace")


def _rails(value: object) -> tuple[int, ...] | None:
    if value is None:
        return None
    rule = "it must be a list of different rail numbers, or left out for all rails"
    if not isinstance(value, list) or not value or not all(type(rail) is int and rail >= 0 for rail in value):
        raise _invalid("rails", value, rule)
    if len(set(value)) != len(value):
        raise _invalid("rails", value, rule)
    return tuple(sorted(value))


def _check_previous(config: Json) -> None:
    previous = config.get("prevResult")
    if previous is None:
        return
    if not isinstance(previous, dict):
        raise _invalid("prevResult", previous, "it must be the result of the plugin before")
    for field in ("interfaces", "ips", "routes"):
        entries = previous.get(field) or []
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise _invalid(f"prevResult.{field}", previous[field], "it must be a list of objects")


def _environment(name: str, value: str, rule: str) -> CniError:
    return CniError(Code.ENVIRONMENT, f"{name} is {_short(value)}; {rule}")


def _invalid(field: str, value: object, rule: str) -> CniError:
    return CniError(Code.CONFIG, f"{field} is {_short(value)}; {rule}")


def _short(value: object) -> str:
    written = msgspec.json.encode(value).decode()
    return written if len(written) <= 60 else f"{written[:57]}..."  # noqa: PLR2004 - a line of a log stays readable
