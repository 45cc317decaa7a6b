"""The CNI protocol between executable and agent: parsing of requests, encoding of answers.

    request   4 bytes length, then CNI_NAME=value NUL ... NUL, then the network configuration as the runtime passed it
    answer    4 bytes length, 1 byte exit status, then the text to print; numbers are big-endian

Requests are not trusted: every length, name and type is checked here, with messages for the runtime's log, before other
modules use them. Follows the CNI specification 1.1, sections 1 and 2, and those since 0.3.0 (see `result`).
"""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final, NamedTuple

import msgspec

from trackbed.node.rails.attachment import MODES, Key
from trackbed.node.rails.errors import CniError, Code

VERSIONS: Final = ("0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0")
"""All that know a list of plugins. Networks in use still say 0.3.1, as the manifests of Flannel and Calico do."""
MAX_CONFIG_BYTES: Final = 1 << 20
MAX_FRAME_BYTES: Final = MAX_CONFIG_BYTES + (1 << 17)
"""Maximum size of a configuration with a runtime's environment (Linux allows 128 KiB for one variable)."""
STATUS_REQUEST: Final = "TRACKBED_STATUS"
"""Environment variable that marks a request of `trackbed agent status`; the CNI executable passes on only CNI_*."""

COMMANDS: Final = ("ADD", "DEL", "CHECK", "GC", "STATUS", "VERSION")
_CONTAINER_COMMANDS: Final = ("ADD", "DEL", "CHECK")
_NAME: Final = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.\-]*")
_MAX_NAME: Final = 255
_POD_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.\-]*[a-z0-9])?")
_MAX_POD_NAME: Final = 253  # RFC 1123, as in the API server
_MAX_PATH: Final = 4095  # PATH_MAX of include/uapi/linux/limits.h, without the NUL
_MAX_IFNAME: Final = 15  # IFNAMSIZ - 1
_TRACKBED_FIELDS: Final = ("mode", "rails")
_STANDARD_FIELDS: Final = (
    *("cniVersion", "cniVersions", "name", "type", "prevResult", "args", "runtimeConfig", "capabilities", "dns"),
    *("disableCheck", "disableGC", "loadOnlyInlinedPlugins"),
)

Json = dict[str, Any]


class PodName(NamedTuple):
    """The name of a pod in Kubernetes."""

    namespace: str
    name: str


class CniRequest(NamedTuple):
    """One call of a runtime. Commands without a container have the key ("", "") and the netns ""."""

    command: str
    cni_version: str
    key: Key
    netns: str
    network: str
    config: Json
    pod: PodName | None = None
    """Set by the runtime of a kubelet; None for other runtimes."""

    @property
    def previous_result(self) -> Json | None:
        """The result of the preceding plugins in a chain; None if the configuration has none."""
        return self.config.get("prevResult")


class RailRequest(NamedTuple):
    """The mode and rails that an ADD requests: None for the mode of the plan, and None for all rails."""

    mode: str | None
    rails: tuple[int, ...] | None


def split_request(body: bytes) -> tuple[dict[str, str], bytes]:
    """Return the environment and the configuration in the body of a request. Raises CniError if it is malformed."""
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
    """Parse and check a call of a runtime. Raises CniError, whose message names the offending field."""
    command = environment.get("CNI_COMMAND", "")
    if command not in COMMANDS:
        raise _build_environment_error("CNI_COMMAND", command, f"it must be one of {', '.join(COMMANDS)}")
    document = _decode_config(config)
    version = _parse_cni_version(document, is_needed=command != "DEL")
    if command == "VERSION":
        return CniRequest(command, version, ("", ""), "", "", document)
    network = _parse_network_name(document)
    if command not in _CONTAINER_COMMANDS:
        return CniRequest(command, version, ("", ""), "", network, document)
    key = _parse_container_id(environment.get("CNI_CONTAINERID", "")), _parse_ifname(environment.get("CNI_IFNAME", ""))
    netns = _parse_netns_path(environment.get("CNI_NETNS", ""), required=command != "DEL")
    _check_previous_result(document)
    return CniRequest(command, version, key, netns, network, document, _parse_pod_name(environment.get("CNI_ARGS", "")))


def parse_rail_request(config: Json) -> RailRequest:
    """Return the mode and rails that an ADD's configuration requests. Raises CniError on an unknown field or value."""
    for name in config:
        if name not in _TRACKBED_FIELDS and name not in _STANDARD_FIELDS and not name.startswith("cni.dev/"):
            close = get_close_matches(name, _TRACKBED_FIELDS, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else f"; Trackbed knows {' and '.join(_TRACKBED_FIELDS)}"
            raise CniError(
                Code.UNSUPPORTED_FIELD, f"{name}: {_shorten_value(config[name])} is no field of Trackbed{hint}"
            )
    mode = config.get("mode")
    if mode is not None and mode not in MODES:
        raise _build_config_error("mode", mode, f"it must be one of {', '.join(MODES)}, or left out")
    return RailRequest(mode, _parse_rails(config.get("rails")))


def parse_valid_attachments(config: Json) -> frozenset[Key] | None:
    """Return the keys of the attachments that a GC keeps; None to keep all, if the configuration lists none (cnitool).

    Raises:
        CniError: the field is not a list of attachments.
    """
    field = "cni.dev/valid-attachments"
    if field not in config:
        return None
    listed = config[field]
    if not isinstance(listed, list):
        raise _build_config_error(field, listed, "it must be the list of attachments that are still valid")
    return frozenset(_parse_attachment_key(f"{field}[{at}]", entry) for at, entry in enumerate(listed))


def encode_answer(status: int, text: bytes) -> bytes:
    """Encode the answer that makes the executable print `text` and exit with `status`."""
    return len(text).to_bytes(4, "big") + bytes([status]) + text


def encode_error(error: CniError, cni_version: str) -> bytes:
    """Encode an error as JSON in the format of the CNI specification."""
    document = {"cniVersion": cni_version, "code": int(error.code), "msg": error.message}
    return msgspec.json.encode(document | ({"details": error.details} if error.details else {}))


def _parse_attachment_key(field: str, entry: object) -> Key:
    fields = entry if isinstance(entry, dict) else {}
    container, ifname = fields.get("containerID"), fields.get("ifname")
    if not isinstance(container, str) or not isinstance(ifname, str):
        raise _build_config_error(field, entry, "it must have containerID and ifname")
    return container, ifname


def _decode_config(raw: bytes) -> Json:
    try:
        document = msgspec.json.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise CniError(Code.DECODE, f"the network configuration is no JSON: {error}") from error
    if not isinstance(document, dict):
        raise CniError(Code.DECODE, f"the network configuration is no object but {_shorten_value(document)}")
    return document


def _parse_cni_version(config: Json, *, is_needed: bool) -> str:
    """Return the version of a call. A pod can be deleted whatever it is, as the answer has nothing of a version."""
    version = config.get("cniVersion")
    if version not in VERSIONS:
        message = f"cniVersion {_shorten_value(version)} is not supported; Trackbed speaks {', '.join(VERSIONS)}"
        if is_needed:
            raise CniError(Code.VERSION, message)
        return VERSIONS[-1]
    return str(version)


def _parse_network_name(config: Json) -> str:
    name = config.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > _MAX_NAME:
        raise _build_config_error("name", name, f"it must be 1 to {_MAX_NAME} letters, digits, '_', '.' or '-'")
    return name


def _parse_container_id(container_id: str) -> str:
    if not _NAME.fullmatch(container_id) or len(container_id) > _MAX_NAME:
        rule = f"it must be 1 to {_MAX_NAME} letters, digits, '_', '.' or '-', a letter or digit first"
        raise _build_environment_error("CNI_CONTAINERID", container_id, rule)
    return container_id


def _parse_pod_name(cni_args: str) -> PodName | None:
    """Return the pod that a kubelet's runtime names in CNI_ARGS: K8S_POD_NAMESPACE=...;K8S_POD_NAME=...;..."""
    values = dict(pair.partition("=")[::2] for pair in cni_args.split(";"))
    names = values.get("K8S_POD_NAMESPACE", ""), values.get("K8S_POD_NAME", "")
    if not any(names):
        return None
    if not all(_POD_NAME.fullmatch(name) and len(name) <= _MAX_POD_NAME for name in names):
        rule = "K8S_POD_NAMESPACE and K8S_POD_NAME must be names of Kubernetes"
        raise _build_environment_error("CNI_ARGS", cni_args, rule)
    return PodName(*names)


def _parse_ifname(ifname: str) -> str:
    if not 0 < len(ifname.encode()) <= _MAX_IFNAME or ifname in {".", ".."} or re.search(r"[/:\s]", ifname):
        rule = f"it must have 1 to {_MAX_IFNAME} bytes without '/', ':' and blanks"
        raise _build_environment_error("CNI_IFNAME", ifname, rule)
    return ifname


def _parse_netns_path(path: str, *, required: bool) -> str:
    if (path.startswith("/") and len(path.encode()) <= _MAX_PATH) or (not path and not required):
        return path
    rule = "it must be the absolute path of the container's network namespace"
    raise _build_environment_error("CNI_NETNS", path, rule)


def _parse_rails(rails: object) -> tuple[int, ...] | None:
    if rails is None:
        return None
    numbers = rails if isinstance(rails, list) else []
    if not numbers or not all(type(rail) is int and rail >= 0 for rail in numbers) or len(set(numbers)) != len(numbers):
        rule = "it must be a list of different rail numbers, or left out for all rails"
        raise _build_config_error("rails", rails, rule)
    return tuple(sorted(numbers))


def _check_previous_result(config: Json) -> None:
    previous = config.get("prevResult")
    if previous is None:
        return
    if not isinstance(previous, dict):
        raise _build_config_error("prevResult", previous, "it must be the result of the plugin before")
    for field in ("interfaces", "ips", "routes"):
        entries = previous.get(field) or []
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise _build_config_error(f"prevResult.{field}", previous[field], "it must be a list of objects")


def _build_environment_error(variable: str, value: str, rule: str) -> CniError:
    return CniError(Code.ENVIRONMENT, f"{variable} is {_shorten_value(value)}; {rule}")


def _build_config_error(field: str, value: object, rule: str) -> CniError:
    return CniError(Code.CONFIG, f"{field} is {_shorten_value(value)}; {rule}")


def _shorten_value(value: object) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 60 else f"{text[:57]}..."  # noqa: PLR2004 - a line of a log stays readable
