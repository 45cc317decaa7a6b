"""Removal of what tells whose machine it is: names, addresses, serial numbers. Secrets are masked before, by `secrets`.

An `Identity` knows the name and the serial numbers of one machine, and finds the rest by its form. `reveals` looks for
what it knows in the result, so that a file in which something was not recognised is left out and not sent.
"""

from __future__ import annotations

import re

from trackbed.host.snapshot import forms
from trackbed.host.snapshot.address_text import AddressText
from trackbed.host.snapshot.pseudonyms import Pseudonyms
from trackbed.host.snapshot.snapshot import Snapshot
from trackbed.host.snapshot.vpd import list_serials

HOST_NAME, _MACHINE_ID = "/proc/sys/kernel/hostname", "/etc/machine-id"
_PACKAGED = ("/usr/lib/", "/lib/", "/proc/iomem", "/proc/cpuinfo", "/proc/sys/net/")
"""Beginnings of paths of files that are the same on all machines of a kind."""
_RELEASES = ("/proc/sys/kernel/osrelease", "/etc/os-release", "/usr/lib/os-release")
_UNTOUCHED_IN_SYSFS = ("/version", "/fw_ver", "/vpd", "/config")
"""Ends of paths of versions, which may look like an IPv4 address, and of registers."""
_CONNECTIONS = "/etc/NetworkManager/system-connections/"


class Identity:
    """What identifies a machine, and the pseudonyms that take its place."""

    def __init__(self, snapshot: Snapshot, pseudonyms: Pseudonyms) -> None:
        """Learn the host name, the MACs and the serial numbers from a snapshot that is not redacted."""
        self._pseudonyms = pseudonyms
        self._addresses = AddressText(pseudonyms)
        short, _, domain = (snapshot.read_text(HOST_NAME) or "").partition(".")
        self.alias = self.replace_name(short)
        self._series = _compile_series(short, domain)
        self._domain = _compile_words({domain})
        serials = {serial.decode("latin-1") for vpd in _read_vpds(snapshot) for serial in list_serials(vpd)}
        macs = {snapshot.read_text(path) or "" for path in snapshot.glob("/sys/class/net/*/address")}
        self._serials = _compile_words(serials)
        names = {domain, snapshot.read_text(_MACHINE_ID) or "", short if self._series else ""}
        self._known = _compile_words(serials | names | {spelling for mac in macs for spelling in _spell_mac(mac)})

    def replace_name(self, name: str) -> str:
        """Return the pseudonym of a host name; names that say nothing stay."""
        return name if _is_generic(name) else f"host-{self._hash(name)}"

    def redact_file(self, path: str, content: bytes) -> bytes:
        """Return the content of a file without identity."""
        in_sysfs = path.startswith("/sys/")
        if path.startswith(_PACKAGED) or path in _RELEASES or (in_sysfs and path.endswith(_UNTOUCHED_IN_SYSFS)):
            return content
        text = content.decode(errors="surrogateescape")
        if path == "/proc/net/route":
            text = forms.ROUTE_WORD.sub(self._addresses.replace_route, text)
        elif path == "/proc/net/ipv6_route":
            text = forms.LONG_ID.sub(self._addresses.replace_plain_ipv6, text)
        elif path.endswith("/phys_switch_id"):
            text = forms.PLAIN_GUID.sub(self._addresses.replace_plain_guid, f"switchid {text}").partition(" ")[2]
        elif in_sysfs and not path.endswith("/node_desc"):
            text = self._addresses.replace_addresses(text)
        else:
            text = self.redact_text(text)
        return text.encode(errors="surrogateescape")

    def redact_path(self, path: str) -> str:
        """Return a path, or the target of a link, without identity."""
        absolute = f"/{path.lstrip('/')}"
        if absolute.startswith(_CONNECTIONS):
            return path[: len(_CONNECTIONS) - len(absolute) + len(path)] + f"{self._hash(path)}.nmconnection"
        text = forms.NAME_OF_MAC.sub(self._addresses.replace_name_of_mac, self._replace_ids(path))
        is_kernels = absolute.startswith(("/sys/", "/proc/", "/dev/")) or path.startswith(".")
        return text if is_kernels else self._replace_names(text)

    def redact_text(self, text: str) -> str:
        """Return a text, such as the output of a program, without identity."""
        for pattern, replacement in forms.MASKED:
            text = pattern.sub(replacement, text)
        if self._serials:
            text = self._serials.sub(forms.MASK, text)
        return self._replace_names(self._addresses.replace_addresses(self._replace_ids(text)))

    def reveals(self, content: bytes) -> bool:
        """Return whether a result still has the name, a MAC, the machine id or a serial number of this machine."""
        return bool(self._known and self._known.search(content.decode("latin-1")))

    def _hash(self, text: str) -> str:
        return (
            self._pseudonyms.replace_bytes(b"\1" + text.lower().encode(errors="surrogateescape"))[:3]
            .hex()
            .ljust(6, "0")
        )

    def _replace_ids(self, text: str) -> str:
        text = forms.UUID.sub(self._replace_digits, text)
        text = forms.LONG_ID.sub(self._replace_digits, text)
        return forms.INSTANCE.sub(lambda match: match[1] + self._replace_hex(match[2]), text)

    def _replace_digits(self, match: re.Match[str]) -> str:
        """Replace the digits of a UUID or a long id, and keep what stands between them."""
        digits = iter(self._replace_hex(re.sub("[-_]", "", match[0])))
        return "".join(letter if letter in "-_" else next(digits) for letter in match[0])

    def _replace_hex(self, digits: str) -> str:
        even = digits + "0" * (len(digits) % 2)
        return self._pseudonyms.replace_bytes(bytes.fromhex(even)).hex()[: len(digits)]

    def _replace_names(self, text: str) -> str:
        if self._series:
            text = self._series.sub(lambda match: self.replace_name(match[1]), text)
        if self._domain:
            text = self._domain.sub(lambda match: f"name-{self._hash(match[0])}.example", text)
        text = forms.URL_HOST.sub(lambda match: match[1] + self._replace_domain(match[2]), text)
        return forms.DOMAIN.sub(lambda match: self._replace_domain(match[0]), text)

    def _replace_domain(self, name: str) -> str:
        end = name.rpartition(".")[2].lower()
        is_kept = forms.PUBLIC_DOMAIN.search(name) or end in forms.NO_COUNTRY or forms.PSEUDONYM.fullmatch(name)
        return name if is_kept or forms.IPV4.fullmatch(name) else f"name-{self._hash(name)}.example"


def _is_generic(name: str) -> bool:
    """Return whether a host name says nothing: a common word, with or without a number, or three letters at most."""
    return len(name) <= 3 or name.rstrip("0123456789-_.").lower() in forms.GENERIC_NAMES  # noqa: PLR2004 - as it says


def _compile_series(short: str, domain: str) -> re.Pattern[str] | None:
    """Return a pattern of the name and of names that differ in their number only; None for a name that says nothing."""
    if _is_generic(short):
        return None
    stem = short.rstrip("0123456789")
    is_series = stem != short and len(stem) > 2  # noqa: PLR2004 - two letters and a number are too often something else
    names = rf"{re.escape(stem)}\d+" if is_series else re.escape(short)
    suffix = rf"(?:\.{re.escape(domain)})?" if domain else ""
    return re.compile(rf"(?i)(?<![A-Za-z0-9])({names}){suffix}(?![A-Za-z0-9])")


def _compile_words(words: set[str]) -> re.Pattern[str] | None:
    """Return a pattern of whole words in any case; None without words."""
    spellings = "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True) if word)
    return re.compile(rf"(?i)(?<![A-Za-z0-9])(?:{spellings})(?![A-Za-z0-9])") if spellings else None


def _read_vpds(snapshot: Snapshot) -> list[bytes]:
    contents = (snapshot.read_bytes(path) for path in snapshot.glob("/sys/class/*/*/device/vpd"))
    return [content for content in contents if isinstance(content, bytes)]


def _spell_mac(mac: str) -> tuple[str, ...]:
    """Return the spellings of a MAC that a vendor gave; none for multicast, local and zero addresses."""
    is_given = forms.MAC.fullmatch(mac) and not int(mac[1], 16) & 3 and not mac.startswith("00:00:00")
    return (mac, mac.replace(":", "-"), mac.replace(":", "")) if is_given else ()
