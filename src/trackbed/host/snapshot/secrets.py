"""Files that never leave a machine, and masking of secrets in the others.

Host names, MAC and IP addresses are kept here, because `init` and `diff` need them at one's own site; module `identity`
replaces them. Serial numbers of cards are masked. Those of the mainboard are in files that no check reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

from trackbed.host.snapshot.pci import mask_serial_number
from trackbed.host.snapshot.secret_values import (
    MASK,
    find_continuation,
    has_secret_name,
    mask_continuation,
    mask_line,
    may_hold_secret,
)
from trackbed.host.snapshot.vpd import mask_serials

_KUBECONFIGS = "/etc/kubernetes/*.conf"
KUBELET_DROP_INS = "/etc/kubernetes/kubelet.conf.d/*.conf"
NEVER = (
    "/etc/shadow*",
    "/etc/gshadow*",
    "/etc/ssh/*_key",
    "/etc/ssl/private/*",
    _KUBECONFIGS,
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
"""Patterns (fnmatch(3)) of whole paths in lower case; `*` also matches slashes."""

_BLOCK_MASK = b"blanked ***"
"""Replaces each line of a block. In YAML it is text, while `***` alone would be an alias."""

_BLOCK_HEAD = re.compile(rb"[ \t]*+(?:-[ \t]++)?[\"']?([\w.-]++)[\"']?[ \t]*+:[ \t]*+(?:[|>][+-]?\d?)?[ \t\r]*+")
"""The head of a YAML block; the indented lines below are the value."""
_PASSWORD_LIST_HEAD = re.compile(rb"[ \t]*+(?:chpasswd:.{0,80})?list:[ \t]*+[|>][+-]?[ \t\r]*+")
"""The head of cloud-init's chpasswd.list; the lines below are USER:PASSWORD."""
_PEM = re.compile(
    rb"-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----|\Z)", re.DOTALL
)


def is_forbidden(path: str) -> bool:
    """Return whether a file never leaves the machine. Drop-ins of kubelet's configuration are no kubeconfigs."""
    lowered = path.lower()
    matches = {pattern for pattern in NEVER if fnmatchcase(lowered, pattern.lower())}
    return bool(matches - {_KUBECONFIGS} if fnmatchcase(lowered, KUBELET_DROP_INS) else matches)


def mask_secrets(path: str, content: bytes) -> bytes:
    """Mask the secrets in a file or output; content without secrets is returned unchanged."""
    if path.endswith("/vpd"):
        return mask_serials(content)
    if path.startswith("/sys/") and path.endswith("/config"):
        return mask_serial_number(content)
    is_binary = path.startswith("/sys/") and b"\0" in content
    if is_binary or not may_hold_secret(content):
        return content
    mask_to_line_end = not path.endswith("/cmdline")  # on a kernel command line, other arguments follow a secret
    return b"".join(_mask_lines(_PEM.sub(MASK, content), mask_to_line_end=mask_to_line_end))


def _mask_lines(content: bytes, *, mask_to_line_end: bool) -> Iterator[bytes]:
    below: int | None = None
    continuation = None
    for line in content.splitlines(keepends=True):
        bare = line.rstrip(b"\r\n")
        margin = len(line) - len(line.lstrip(b" \t"))
        if continuation is not None:
            masked, continuation = mask_continuation(bare, continuation)
            if masked is not None:
                yield masked + line[len(bare) :]
                continue
        if below is not None and (margin > below or not bare.strip() or bare[margin:].startswith(b"- ")):
            item = b"- " if bare[margin:].startswith(b"- ") else b""
            yield line[:margin] + item + _BLOCK_MASK + line[len(bare) :] if bare.strip() else line
            continue
        below = margin if _opens_secret_block(bare) else None
        secret = below is None and may_hold_secret(bare)
        continuation = find_continuation(bare) if secret and mask_to_line_end else None
        yield mask_line(bare, mask_to_line_end=mask_to_line_end) + line[len(bare) :] if secret else line


def _opens_secret_block(line: bytes) -> bool:
    """Return whether the indented lines below are the value of a secret."""
    match = _BLOCK_HEAD.fullmatch(line)
    return bool(
        _PASSWORD_LIST_HEAD.fullmatch(line) or (match and match[1].lower() != b"auth" and has_secret_name(match[1]))
    )
