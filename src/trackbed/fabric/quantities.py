"""Quantities of Kubernetes, such as 8, 500m, 64k or 64Gi (k8s.io/apimachinery, pkg/api/resource)."""

import re
from decimal import Decimal

_QUANTITY = re.compile(
    r"\s*([+-]?(?:[0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30}))(?:[eE]([+-]?[0-9]{1,2})|([KMGTPE]i|[numkMGTPE]))?\s*"
)
_SUFFIXES = {
    **{f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", 1)},
    **{letter: Decimal(1000) ** power for power, letter in enumerate("num", -3)},
    **{letter: Decimal(1000) ** power for power, letter in enumerate("kMGTPE", 1)},
}
"""Suffix of a Kubernetes quantity -> factor."""


def is_same_quantity(first: object, second: object) -> bool:
    """Return whether two Kubernetes quantities are equal, as the API server may rewrite 5120Mi as 5Gi."""
    if str(first) == str(second):
        return True
    left, right = parse_quantity(str(first)), parse_quantity(str(second))
    return left is not None and left == right


def parse_quantity(text: str) -> Decimal | None:
    """Return the value of a Kubernetes quantity, such as 8, .5, 500m or 64Gi; None for any other text.

    Spaces around it do not count, as for the API server. Numbers of over 30 digits and exponents of over 2 are None.
    """
    match = _QUANTITY.fullmatch(text)
    if match is None or (match[3] and match[3] not in _SUFFIXES):
        return None
    return Decimal(match[1]) * Decimal(10) ** int(match[2] or 0) * (_SUFFIXES[match[3]] if match[3] else 1)


def parse_whole(text: str) -> int | None:
    """Return the value of a quantity that is a whole number from 0 on, such as 8, 64k or 2000m; None for others."""
    value = parse_quantity(text)
    return int(value) if value is not None and value >= 0 and value == value.to_integral_value() else None
