"""What is answered fits the headers and logs it goes to."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cluster.webhook.requests import request
from trackbed.cluster.webhook.review import MAX_AUDIT_CHARACTERS, MAX_WARNING_CHARACTERS, Verdict, render_response

ASKED = request({"metadata": {}})


def told(verdict: Verdict) -> Any:
    return json.loads(render_response(ASKED, verdict))["response"]


WARNINGS = {
    "plain": ("a rail", "a rail"),
    "a line's end": ("a\r\nX-Injected: yes", "a?X-Injected: yes"),
    "other alphabets": ("r\u00e4il \U0001f9ea", "r?il ?"),
    "a control character": ("a\x00b\x7f", "a?b?"),
    "as long as may be": ("x" * MAX_WARNING_CHARACTERS, "x" * MAX_WARNING_CHARACTERS),
    "too long": ("x" * 10_000, "x" * (MAX_WARNING_CHARACTERS - 3) + "..."),
}


@pytest.mark.parametrize(("warning", "header"), WARNINGS.values(), ids=WARNINGS)
def test_a_warning_fits_a_header(warning: str, header: str) -> None:
    assert told(Verdict(warnings=(warning,)))["warnings"] == [header]


def test_many_warnings_are_cut_to_some_and_the_number_of_the_others() -> None:
    warnings = told(Verdict(warnings=tuple(f"{number}" for number in range(20))))["warnings"]
    assert warnings == [*map(str, range(8)), "12 more: see the audit annotation of this request"]
    assert sum(map(len, told(Verdict(warnings=("x" * 999,) * 20))["warnings"])) < 4096


def test_an_audit_annotation_is_cut() -> None:
    audit = told(Verdict(audit=(("kept", "x" * 10_000),)))["auditAnnotations"]
    assert audit == {"kept": "x" * MAX_AUDIT_CHARACTERS}


def test_a_refusal_has_no_patch_and_a_status() -> None:
    response = told(Verdict(patch=({"op": "remove", "path": "/x"},), refusal="no"))
    assert response == {
        "uid": "u",
        "allowed": False,
        "status": {"code": 422, "reason": "Invalid", "message": "no"},
    }


def test_nothing_to_say_is_said_in_few_words() -> None:
    assert told(Verdict()) == {"uid": "u", "allowed": True}
