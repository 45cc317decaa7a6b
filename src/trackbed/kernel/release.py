"""The kernel's release, and the features that older kernels lack."""

from __future__ import annotations

import re

MOVE_TO_INDEX = (5, 13)
"""IFLA_NEW_IFINDEX on a move to another namespace (commit eeb85a14ee34); older kernels ignore it."""
PARENT_DEVICE = (5, 14)
"""IFLA_PARENT_DEV_NAME, the PCI address of an interface (commit 00e77ed8e64d)."""
LIVE_RENAME = (6, 2)
"""Renaming an interface that is up (commit bd039b5ea2a9)."""


def parse_release(text: str) -> tuple[int, int]:
    """Return the version of a release such as `5.14.0-503.el9`; (0, 0) if the text is no release."""
    version = re.match(r"(\d+)\.(\d+)", text)
    return (int(version[1]), int(version[2])) if version else (0, 0)


def explain_old_kernel(release: str, version: tuple[int, int], feature: str) -> str:
    """Return that a kernel lacks a feature that Linux has since `version`; empty if it has it or is unknown."""
    if not (0, 0) < parse_release(release) < version:
        return ""
    return f"this kernel is {release}, and {feature} needs Linux {version[0]}.{version[1]}"
