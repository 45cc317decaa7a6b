"""Files that never leave a machine, and masking of secrets in the others.

Kept, because planning needs them: host name, MAC addresses, PCI addresses, kernel arguments. Serial numbers of cards
are blanked; those of the mainboard are in files that nobody asks for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

from trackbed.host.snapshot.vpd import mask_serials

NEVER = (
    "/etc/shadow*",
    "/etc/gshadow*",
    "/etc/ssh/*_key",
    "/etc/ssl/private/*",
    "/etc/kubernetes/*.conf",
    "/etc/kubernetes/pki/*",
    "*/NetworkManager/system-connections/*",
    "/etc/wpa_supplicant/*",
    "/etc/wireguard/*",
    "/root/*",
    "/home/*",
    "/var/lib/kubelet/pki/*",
    "/var/lib/kubelet/*config*.json",
    "/proc/*/environ",
    "/sys/class/dmi/id/*serial*",
    "/sys/class/dmi/id/*uuid*",
    "/sys/firmware/efi/efivars/*",
    "*.pem",
    "*.key",
    "*kubeconfig*",
    "*password*",
    "*secret*",
    "*token*",
)
"""Patterns of fnmatch(3) over whole paths, in small letters; `*` matches slashes too."""

_MASK = b"***"
_MASK_BELOW = b"blanked ***"
"""For each line of a block: YAML takes it as text, where `***` alone would be an alias."""

_SECRET = re.compile(
    rb"(?i)passw(?:or)?d|passphrase|secret|token|(?:api|access|private|preshared|wep)[_-]?key|psk|credential|mka-cak"
    rb"|^(?:pass|auth|pin)$"
)
"""Names whose values are secret."""
_MENTIONED = re.compile(
    rb"(?i)passw|passphrase|secret|token|key|psk|credential|mka-cak|pass|auth|pin|://|iscsi:|[a-z0-9+/]{43}="
)
"""A line without any of these holds no secret that we would know."""

_NAMED = re.compile(rb"(?<![\w.-])([\w.-]++)([\"']?[ \t]*+[=:][ \t]*+)")
"""A name and what it is assigned with; possessive, so that a long line takes one pass."""
_FIRST = re.compile(rb"[ \t]*(?:-[ \t]+)?(?:export[ \t]+)?[\"']?")
"""What stands before a name that has its line for itself (YAML, INI, an environment file)."""
_VALUE = re.compile(
    rb"\"(?:\\.|[^\"\\\n])*+(?:\"|$)|'[^'\n]*+(?:'|$)|\[[^\]\n]*+(?:\]|$)|\{[^}\n]*+(?:\}|$)|[^\s,;&\"'\[{}]++"
)
_TO_THE_END = re.compile(rb"[^\s\"'\[{].*?(?=,?[ \t\r]*$)")
_TO_THE_QUOTE = re.compile(rb"[^\"'\n]+")
_OPTION = re.compile(rb"(?<![\w.-])--?([\w.]+[\w.-]*+)([ \t]++)([^\s-]\S*+)")
"""A program's option with its value as the next word."""

_OPENED = re.compile(rb"[ \t]*+(?:-[ \t]++)?[\"']?([\w.-]++)[\"']?[ \t]*+:[ \t]*+(?:[|>][+-]?\d?)?[ \t\r]*+")
"""The head of a YAML block; what is indented below it is the value."""
_LISTED = re.compile(rb"[ \t]*+(?:chpasswd:.{0,80})?list:[ \t]*+[|>][+-]?[ \t\r]*+")
"""cloud-init's chpasswd.list, lines of USER:PASSWORD."""

_HARMLESS = re.compile(rb"(?i)true|false|null|none|yes|no")
_SPAN = re.compile(rb"(?:[0-9]++(?:\.[0-9]++)?(?:ns|us|ms|s|m|h|d)?){1,4}")
_SPAN_NAME = re.compile(rb"(?i)(?:ttl|timeout|period|interval|duration|seconds|lifetime|expiration|age)$")
_PLACE_NAME = re.compile(rb"(?i)(?:file|path|dir)$")

_AUTHORIZATION = re.compile(
    rb"(?i)(authorization[\"']?[ \t]*+[=:][ \t]*+\[?[ \t]*+[\"']?(?:basic|bearer)[ \t]++)[^\s\"'\]]++"
)
_URL = re.compile(rb"(?i)([a-z][a-z0-9+.-]{0,30}://[^\s/:@]{0,200}:)[^\s/@]+@")
_ISCSI = re.compile(rb"(?i)(iscsi:)[^\s@]+@")
"""dracut.cmdline(7): netroot=iscsi:USER:PASSWORD@HOST."""
_WIREGUARD = re.compile(rb"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{43}=(?![A-Za-z0-9+/=])")
"""32 bytes in base64: a private or a shared key of WireGuard (wg(8)); a public one looks alike."""
_PEM = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)


def is_forbidden(path: str) -> bool:
    """Return whether a file never leaves the machine."""
    lowered = path.lower()
    return any(fnmatchcase(lowered, pattern.lower()) for pattern in NEVER)


def mask_secrets(path: str, content: bytes) -> bytes:
    """Mask the secrets in a file or output; content without secrets is returned unchanged."""
    if path.endswith("/vpd"):
        return mask_serials(content)
    if b"\0" in content or not _MENTIONED.search(content):
        return content
    whole = not path.endswith("/cmdline")  # kernel arguments go on after a secret
    return b"".join(_mask_lines(_PEM.sub(_MASK, content), whole=whole))


def _mask_lines(content: bytes, *, whole: bool) -> Iterator[bytes]:
    below: int | None = None
    for line in content.splitlines(keepends=True):
        bare = line.rstrip(b"\r\n")
        margin = len(line) - len(line.lstrip(b" \t"))
        if below is not None and (margin > below or not bare.strip() or bare[margin:].startswith(b"- ")):
            item = b"- " if bare[margin:].startswith(b"- ") else b""
            yield line[:margin] + item + _MASK_BELOW + line[len(bare) :] if bare.strip() else line
            continue
        below = margin if _opens_secret_block(bare) else None
        secret = below is None and _MENTIONED.search(bare)
        yield _mask_line(bare, whole=whole) + line[len(bare) :] if secret else line


def _opens_secret_block(line: bytes) -> bool:
    """Return whether the indented lines below are the value of a secret."""
    match = _OPENED.fullmatch(line)
    return bool(_LISTED.fullmatch(line) or (match and match[1].lower() != b"auth" and _SECRET.search(match[1])))


def _mask_line(line: bytes, *, whole: bool) -> bytes:
    line = _URL.sub(rb"\1" + _MASK + b"@", line)
    line = _ISCSI.sub(rb"\1" + _MASK + b"@", line)
    line = _AUTHORIZATION.sub(rb"\1" + _MASK, line)
    line = _WIREGUARD.sub(_MASK, line)
    line = _OPTION.sub(_mask_option, line)
    return b"".join(_iter_masked(line, whole=whole))


def _mask_option(match: re.Match[bytes]) -> bytes:
    is_public = not _SECRET.search(match[1]) or _is_harmless(match[1], match[3])
    return match[0] if is_public else match[0][: -len(match[3])] + _MASK


def _iter_masked(line: bytes, *, whole: bool) -> Iterator[bytes]:
    """Yield the pieces of a line, with the values of secret names masked."""
    end = 0
    for assignment in _NAMED.finditer(line):
        if assignment.start() < end or not _SECRET.search(assignment[1]):
            continue
        value = _match_value(line, assignment, whole=whole)
        if value is None or _is_harmless(assignment[1], value[0]):
            continue
        opening = value[0][:1] if value[0][:1] in {b'"', b"'"} else b""
        quote = opening or (
            b'"' if b":" in assignment[2] or value[0][:1] in {b"[", b"{"} else b""
        )  # still YAML and JSON
        yield line[end : value.start()] + quote + _MASK + quote
        end = value.end()
    yield line[end:]


def _match_value(line: bytes, assignment: re.Match[bytes], *, whole: bool) -> re.Match[bytes] | None:
    """Match a value: to the end of the line, to the quote before the name, or by its own quotes and blanks."""
    before, start = line[: assignment.start()], assignment.end()
    if whole and before.endswith((b'"', b"'")) and before.lstrip().startswith(b"Environment="):  # systemd.exec(5)
        return _TO_THE_QUOTE.match(line, start)
    if whole and _FIRST.fullmatch(before):
        return _TO_THE_END.match(line, start) or _VALUE.match(line, start)
    return _VALUE.match(line, start)


def _is_harmless(name: bytes, value: bytes) -> bool:
    """Return whether it is a boolean, a duration, a path, or the table `auth` of netplan and containerd."""
    bare = value.strip(b"\"'")
    return bool(
        _HARMLESS.fullmatch(bare)
        or (_SPAN_NAME.search(name) and _SPAN.fullmatch(bare))
        or (_PLACE_NAME.search(name) and bare.startswith(b"/"))
        or (name.lower() == b"auth" and bare.startswith(b"{"))
    )
