r"""Characters beyond U+FFFF in JSON text, which has two escapes for each: \ud83d\ude00 (RFC 8259, section 7).

libyaml refuses them, and Kubernetes reads a text that begins with a brace as JSON. So libyaml gets other escapes of the
same length, of characters for private use, and its values are put right: all text keeps its place.
"""

import re

_PAIR = re.compile(r"(?<!\\)((?:\\\\)*)\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")
_HIDDEN_PAIR = re.compile("[\ue000-\ue3ff][\ue400-\ue7ff]")
_TAKEN = re.compile(r"[\ue000-\ue7ff]|\\u[eE][0-7]")
"""Matches what cannot be told from a hidden escape."""
_SHIFT = 0xE000 - 0xD800


def is_json(text: str) -> bool:
    """Return whether Kubernetes reads a text as JSON (k8s.io/apimachinery, util/yaml, GuessJSONStream)."""
    return text.lstrip().startswith("{")


def hide_surrogates(text: str) -> str:
    """Return JSON with other escapes of the same length in place of those that libyaml refuses; other text as it is."""
    if not is_json(text) or not _PAIR.search(text) or _TAKEN.search(text):
        return text
    return _PAIR.sub(lambda match: f"{match[1]}{_hide(match[2])}{_hide(match[3])}", text)


def _hide(digits: str) -> str:
    return rf"\u{int(digits, 16) + _SHIFT:04x}"


def restore_characters(value: str) -> str:
    """Return a value of a text in which surrogates were hidden, with its characters."""
    return _HIDDEN_PAIR.sub(_join, value)


def _join(match: re.Match[str]) -> str:
    high, low = (ord(character) - _SHIFT for character in match[0])
    return chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))
