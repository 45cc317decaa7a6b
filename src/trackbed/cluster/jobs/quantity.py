"""Kubernetes quantities: the API server writes 5120Mi as 5Gi, so they are compared by value."""

from __future__ import annotations

import re
from decimal import Decimal

_FORM = re.compile(r"([+-]?[0-9]{1,30}(?:\.[0-9]{0,30})?)(?:[eE]([+-]?[0-9]{1,2})|([KMGTPE]i|[numkMGTPE]))?")
_SUFFIXES = {
    **{f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", 1)},
    **{letter: Decimal(1000) ** power for power, letter in enumerate("num", -3)},
    **{letter: Decimal(1000) ** power for power, letter in enumerate("kMGTPE", 1)},
}


def equal(one: object, other: object) -> bool:
    """Whether two quantities are the same number; what is no quantity equals only itself."""
    if str(one) == str(other):
        return True
    left, right = _value(str(one)), _value(str(other))
    return left is not None and left == right


def _value(text: str) -> Decimal | None:
    found = _FORM.fullmatch(text)
    if found is None or (found[3] and found[3] not in _SUFFIXES):
        return None
    return Decimal(found[1]) * Decimal(10) ** int(found[2] or 0) * (_SUFFIXES[found[3]] if found[3] else 1)
