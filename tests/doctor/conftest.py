"""Every finding that a test of doctor makes must be fit to be read: no placeholder and no value of Python in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from trackbed.doctor import catalogue
from trackbed.doctor.finding import Finding

UNFIT = re.compile(
    r"\bNone\b|\bTrue\b|\bFalse\b|\{\w+\}|<\w+(\.\w+)* object|<(netdev|leaf|mac|pci|address|table)>|: \[\]|\['"
)

KUBELET_POLICY = re.compile(r"of policy None|memoryManagerPolicy is None")
"""The memory manager of kubelet calls its policy without effect `None`."""


@cache
def is_unfit(text: str) -> bool:
    """Return whether no user should read a text; most texts come again and again."""
    return UNFIT.search(KUBELET_POLICY.sub("", text)) is not None


@pytest.fixture(autouse=True)
def unfit_texts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Collect texts that no user should read, and fail the test that made one."""
    unfit: list[str] = []

    def build(*arguments: Any, **named: Any) -> Finding:
        finding = Finding(*arguments, **named)
        texts = (finding.title, finding.evidence, finding.cause, finding.fix)
        unfit.extend(f"{finding.id}: {text}" for text in texts if is_unfit(text))
        return finding

    monkeypatch.setattr(catalogue, "Finding", build)
    yield
    assert unfit == []
