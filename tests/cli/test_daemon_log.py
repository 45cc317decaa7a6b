"""The log of the webhook, the controller and the agent: nothing that others wrote begins a line of its own."""

from __future__ import annotations

import logging

import pytest

from trackbed.cli import daemon_log


def started(monkeypatch: pytest.MonkeyPatch) -> logging.Logger:
    """A log on the present standard error."""
    root = logging.RootLogger(logging.WARNING)
    monkeypatch.setattr(logging, "root", root)
    daemon_log.start_log()
    return root


def test_a_name_of_others_forges_no_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    log = started(monkeypatch)
    log.info("%s refused: %s", "x\nWARNING the certificate is kept\r\x1b[2K\u202e", "no")
    log.warning("next")
    expected = "INFO x\\nWARNING the certificate is kept\\x0d\\x1b[2K\\u202e refused: no\nWARNING next\n"
    assert capsys.readouterr().err == expected


def test_a_long_message_is_cut(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    log = started(monkeypatch)
    log.info("%s refused", "x" * 1_000_000)
    line = capsys.readouterr().err
    assert line.startswith("INFO xxx")
    assert line.endswith("xxx refused\n")
    assert len(line) < 5000


def test_the_text_of_an_exception_forges_no_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = started(monkeypatch)
    log.error("failed", exc_info=ValueError(f"a\nWARNING forged\n{'x' * 100_000}"))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "ERROR failed"
    assert all(line.startswith("  ") for line in lines[1:])
    assert sum(map(len, lines)) < 20_000
