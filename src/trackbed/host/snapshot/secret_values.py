"""The secrets in a line of text, and the lines below that still belong to one.

password = my hunter2            a name and its value, in YAML, INI, TOML, JSON, a shell, a kernel command line
tokens = [                       lines below belong to it, up to the bracket that closes it
wpa-psk hunter2                  a word and its value, as ifupdown, FRR and netrc write them
http://me:hunter2@proxy:3128     a password in a URL
$6$salt$hash                     a value that is secret by its form
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

MASK = b"***"

_SECRET = re.compile(
    rb"(?i)passw(?:or)?d|passphrase|secret|token|credential|psk|mka-cak|authtok|cryptkey|(?:pw|wpa|wep)$|(?<!by)pass$"
    rb"|(?:api|access|consumer|private|preshared|shared|wep|wireless|certificate|encryption|signing|master|auth"
    rb"|authentication|account|luks)[._-]?key|^(?:auth|pin)$|(?:^|-)cookie$|^r[ow]community$|(?-i:^KEY\d?$)"
)
"""Names whose values are secret. KEY1 is a WEP key in ifcfg files."""
_HINT = re.compile(
    rb"(?i)passw|passphrase|secret|token|key|psk|credential|mka-cak|pass|auth|pin|pw|wpa|wep|cookie|community|md5"
    rb"|://|iscsi:|proxy|eyJ|[$]|-u|[a-z0-9+/]{43}="
)
"""A line without a match contains no secret that this module recognises."""

_ASSIGNMENT = re.compile(rb"(?<![\w.-])([\w.-]++)([\"']?[ \t]*+[=:][ \t]*+)")
"""A name and its assignment sign; the quantifiers are possessive, so that a long line is scanned once."""
_LINE_PREFIX = re.compile(rb"[ \t]*(?:-[ \t]+)?(?:export[ \t]+)?[\"']?")
"""The text before a name that begins its line (YAML, INI, an environment file)."""
_VALUE = re.compile(
    rb"\"{3}.*?(?:\"{3}|$)|'{3}.*?(?:'{3}|$)"
    rb"|\"(?:\\.|[^\"\\\n])*+(?:\"|$)|'[^'\n]*+(?:'|$)|[^\s,;&\"'\[{}]++"
)
_ENVIRONMENT = re.compile(rb"\s*Environment=")
"""The beginning of a line of a unit; systemd.exec(5)."""
_VALUE_TO_LINE_END = re.compile(rb"[^\s\"'\[{].*?(?=,?[ \t\r]*$)")
_VALUE_TO_QUOTE = re.compile(rb"[^\"'\n]+")
_TO_LINE_END = re.compile(rb".+")
_CLOSING = re.compile(rb"\"{3}|'{3}|[\"'\[{]")
"""What opens a value that may go on below."""
_IN_BRACKETS = re.compile(rb"\"(?:\\.|[^\"\\])*+(?:\"|$)|'[^']*+(?:'|$)|(?<!\S)#.*|[\[\]{}]")
_OPENING = {b"]": b"[", b"}": b"{"}

_OPTION = re.compile(rb"(?<![\w.-])--?([\w.]+[\w.-]*+)([ \t]++)([^\s-]\S*+)")
"""A command-line option whose value is the next word."""
_USER_OPTION = re.compile(rb"(?<![\w-])((?:-u|--user|--proxy-user)[ \t=]+[^\s:]{0,200}:)(?!\d+(?:\s|$))\S+")
"""curl(1): -u USER:PASSWORD; not the numbers of a user and a group."""
_FIRST_WORD = re.compile(rb"\A([ \t]*+)([\w.-]++)([ \t]++)(?![=:])(.+)")
_PAM_CONTROL = re.compile(rb"-?(?:requi(?:red|site)|sufficient|optional|include|substack|\[)")
"""pam.conf(5): the second word of a line `password`."""
_WORDS = re.compile(
    rb"(?i)\A([ \t]*(?:machine|neighbor|area|ipv?6?|enable|username|snmp-server)[ \t]"
    rb"(?:.{0,200}?[ \t])??(?:password|secret|md5|authentication-key|community)[ \t]+(?:\d[ \t]+)?)\S+"
)
"""netrc and FRR: the secret follows a word within the line, and sometimes the number of its encryption."""

_HARMLESS = re.compile(rb"(?i)true|false|null|none|yes|no")
_SPAN = re.compile(rb"(?:[0-9]++(?:\.[0-9]++)?(?:ns|us|ms|s|m|h|d)?){1,4}")
_SPAN_NAME = re.compile(rb"(?i)(?:ttl|timeout|period|interval|duration|seconds|lifetime|expiration|age)$")
_PLACE_NAME = re.compile(rb"(?i)(?:file|path|dir)$")

_AUTHORIZATION = re.compile(
    rb"(?i)(authorization[\"']?[ \t]*+[=:][ \t]*+\[?[ \t]*+)"
    rb"(?:(\"(?:[a-z][\w-]*+[ \t]++)?)(?:\\.|[^\"\\])++|('(?:[a-z][\w-]*+[ \t]++)?)[^']++"
    rb"|((?:[a-z][\w-]*+[ \t]++)?)[^\s\"'{].*)"
)
"""A header with credentials of any scheme (RFC 9110, 11.6.2); the scheme stays."""
_WORD = re.compile(rb"(?<=\")[^\"\s]+|(?<=')[^'\s]+|[^\s\"']+")
_URL_PORT = re.compile(rb"[^/:@]*:\d{1,5}[/?#]")
_PROXY = re.compile(rb"(?i)(proxy[\"']?[ \t]*[=:][ \t]*[\"']?)(?!\w+://)[^\s/@\"':]{1,200}:[^\s\"']{1,500}@")
"""A proxy without a scheme, as curl(1) takes one."""
_ISCSI = re.compile(rb"(?i)(iscsi:)\S+@")
"""dracut.cmdline(7): netroot=iscsi:USER:PASSWORD@HOST."""
_FORM = re.compile(
    rb"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{43}=(?![A-Za-z0-9+/=])"  # 32 bytes in base64: a key of WireGuard (wg(8))
    rb"|\$(?:1|2[abxy]|5|6|7|y|gy)\$[./A-Za-z0-9$=,-]{6,}"  # crypt(5)
    rb"|\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"  # RFC 7519: a JSON web token
)
"""Values that are secret by their form."""


class Continuation(NamedTuple):
    """The lines that still belong to a secret value."""

    closing: bytes = b""
    """What ends it: a quote, a bracket, or a line without this backslash; b"": it ends with its indentation."""
    margin: int = 0
    """The lines indented further than this belong to it."""
    depth: int = 0
    """The number of open brackets."""


def may_hold_secret(text: bytes) -> bool:
    """Return whether to look for secrets in a text."""
    return bool(_HINT.search(text))


def has_secret_name(name: bytes) -> bool:
    """Return whether the values with this name are secret."""
    return bool(_SECRET.search(name))


def mask_line(line: bytes, *, mask_to_line_end: bool) -> bytes:
    """Mask the secrets in a line; with `mask_to_line_end` nothing follows the value of a name that begins the line."""
    if b"@" in line:
        line = _WORD.sub(lambda match: _mask_url(match[0]), line)
        line = _ISCSI.sub(rb"\1" + MASK + b"@", line)
        line = _PROXY.sub(rb"\1" + MASK + b"@", line)
    line = _AUTHORIZATION.sub(rb"\1\2\3\4" + MASK, line)
    line = _FORM.sub(MASK, line)
    line = _OPTION.sub(_mask_option, line)
    line = _USER_OPTION.sub(rb"\1" + MASK, line)
    line = _WORDS.sub(rb"\1" + MASK, line)
    if mask_to_line_end:
        line = _FIRST_WORD.sub(_mask_after_word, line, count=1)
    return b"".join(_mask_assignments(line, mask_to_line_end=mask_to_line_end))


def find_continuation(line: bytes) -> Continuation | None:
    """Return which lines below belong to the last secret value of a line, None if it ends there."""
    assignment = value = None
    for assignment, value in _iter_secrets(line, mask_to_line_end=True):  # noqa: B007 - the last one counts
        pass
    if assignment is None or value is None:
        return None
    opening = _CLOSING.match(value[0])
    if opening is None:
        return _find_plain_lines(line, assignment)
    if opening[0] in _OPENING.values():
        depth = _count_open(value[0])
        return Continuation(b"]" if opening[0] == b"[" else b"}", depth=depth) if depth > 0 else None
    return None if _closes(value[0], opening[0]) else Continuation(opening[0])


def mask_continuation(line: bytes, continuation: Continuation) -> tuple[bytes | None, Continuation | None]:
    """Mask a line that belongs to a value; return it (None: it does not belong), and what is left of the value."""
    if continuation.closing == b"\\":
        return MASK, continuation if line.endswith(b"\\") else None
    if continuation.closing in _OPENING:
        return _mask_in_brackets(line, continuation)
    if continuation.closing:
        end = line.find(continuation.closing)
        if end < 0:
            return MASK if line.strip() else line, continuation
        end += len(continuation.closing)
        return MASK + continuation.closing + mask_line(line[end:], mask_to_line_end=False), None
    margin = len(line) - len(line.lstrip(b" \t"))
    return (line[:margin] + MASK, continuation) if line.strip() and margin > continuation.margin else (None, None)


def _mask_in_brackets(line: bytes, continuation: Continuation) -> tuple[bytes, Continuation | None]:
    """Empty a line up to the bracket that closes the value."""
    depth = continuation.depth
    for part in _IN_BRACKETS.finditer(line):
        depth += (part[0] in {b"[", b"{"}) - (part[0] in {b"]", b"}"})
        if depth == 0:
            margin = line[: len(line) - len(line.lstrip(b" \t"))]
            return margin + continuation.closing + mask_line(line[part.end() :], mask_to_line_end=False), None
    return b"", continuation._replace(depth=depth)


def _find_plain_lines(line: bytes, assignment: re.Match[bytes]) -> Continuation | None:
    """Return the lines that go on with a plain value: after a backslash, or indented (YAML, INI)."""
    if line.endswith(b"\\"):
        return Continuation(b"\\")
    before = line[: assignment.start()]
    return Continuation(margin=assignment.start()) if not before.strip(b" \t-") else None


def _count_open(text: bytes) -> int:
    """Return the number of brackets that a text leaves open."""
    parts = [part[0] for part in _IN_BRACKETS.finditer(text)]
    return sum(part in {b"[", b"{"} for part in parts) - sum(part in {b"]", b"}"} for part in parts)


def _closes(value: bytes, quote: bytes) -> bool:
    """Return whether a quoted value ends on its line."""
    return len(value) >= 2 * len(quote) and value.endswith(quote) and not _ends_escaped(value, quote)


def _ends_escaped(value: bytes, quote: bytes) -> bool:
    backslashes = len(value) - 1 - len(value[:-1].rstrip(b"\\"))
    return quote == b'"' and backslashes % 2 == 1


def _mask_url(word: bytes) -> bytes:
    """Mask what is before the last @ of a URL, but a plain user name of a scheme other than HTTP."""
    scheme, separator, after = word.partition(b"://")
    user_info, at, host = after.rpartition(b"@")
    name, colon, _ = user_info.partition(b":")
    if not separator or not at or b"/" in name or _URL_PORT.match(after):
        return word
    if colon:
        return scheme + separator + name + colon + MASK + at + host
    is_http = scheme[-5:].lower().endswith((b"http", b"https"))
    return scheme + separator + MASK + at + host if is_http else word


def _mask_option(match: re.Match[bytes]) -> bytes:
    is_public = not _SECRET.search(match[1]) or _is_harmless(match[1], match[3])
    return match[0] if is_public else match[0][: -len(match[3])] + MASK


def _mask_after_word(match: re.Match[bytes]) -> bytes:
    """Mask what follows the first word of a line, `wpa-psk hunter2`."""
    is_public = not _SECRET.search(match[2]) or _PAM_CONTROL.match(match[4]) or _is_harmless(match[2], match[4])
    return match[0] if is_public else match[1] + match[2] + match[3] + MASK


def _mask_assignments(line: bytes, *, mask_to_line_end: bool) -> Iterator[bytes]:
    """Yield the pieces of a line, with the values of secret names masked."""
    end = 0
    for assignment, value in _iter_secrets(line, mask_to_line_end=mask_to_line_end):
        yield line[end : value.start()] + _render_mask(value[0], is_yaml=b":" in assignment[2])
        end = value.end()
    yield line[end:]


def _render_mask(value: bytes, *, is_yaml: bool) -> bytes:
    """Return the mask of a value in its quotes, so that YAML, TOML and JSON stay so; they close below if it does."""
    opening = _CLOSING.match(value)
    if opening is None:
        return b'"' + MASK + b'"' if is_yaml else MASK
    if opening[0] in _OPENING.values():
        if _count_open(value) <= 0:
            return b'"' + MASK + b'"'
        return opening[0] + (b'"***"' if opening[0] == b"[" else b'"***": "***"')
    return opening[0] + MASK + (opening[0] if _closes(value, opening[0]) else b"")


def _iter_secrets(line: bytes, *, mask_to_line_end: bool) -> Iterator[tuple[re.Match[bytes], re.Match[bytes]]]:
    """Yield each assignment of a secret, and its value."""
    end = 0
    for assignment in _ASSIGNMENT.finditer(line):
        if assignment.start() < end or not _SECRET.search(assignment[1]):
            continue
        value = _match_value(line, assignment, mask_to_line_end=mask_to_line_end)
        if value is None or _is_harmless(assignment[1], value[0]):
            continue
        yield assignment, value
        end = value.end()


def _match_value(line: bytes, assignment: re.Match[bytes], *, mask_to_line_end: bool) -> re.Match[bytes] | None:
    """Match a value up to the end of the line, the quote that closes the assignment, or the end of the word."""
    before, start = assignment.start(), assignment.end()
    if line[start : start + 1] in {b"[", b"{"}:
        return _match_brackets(line, start)
    if mask_to_line_end and line[before - 1 : before] in {b'"', b"'"} and _ENVIRONMENT.match(line, 0, before):
        return _VALUE_TO_QUOTE.match(line, start)
    if mask_to_line_end and _LINE_PREFIX.fullmatch(line, 0, before):
        return _VALUE_TO_LINE_END.match(line, start) or _VALUE.match(line, start)
    return _VALUE.match(line, start)


def _match_brackets(line: bytes, start: int) -> re.Match[bytes] | None:
    """Match up to the bracket that closes a value, else to the end of the line."""
    depth = 0
    for part in _IN_BRACKETS.finditer(line, start):
        depth += (part[0] in {b"[", b"{"}) - (part[0] in {b"]", b"}"})
        if depth == 0:
            return _TO_LINE_END.match(line, start, part.end())
    return _TO_LINE_END.match(line, start)


def _is_harmless(name: bytes, value: bytes) -> bool:
    """Return whether a value is a boolean, a duration, a path, or the table `auth` of netplan and containerd."""
    bare = value.strip(b"\"'")
    return bool(
        _HARMLESS.fullmatch(bare)
        or (_SPAN_NAME.search(name) and _SPAN.fullmatch(bare))
        or (_PLACE_NAME.search(name) and bare.startswith(b"/"))
        or (name.lower() == b"auth" and bare.startswith(b"{"))
    )
