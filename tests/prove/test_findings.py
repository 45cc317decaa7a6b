import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.prove.topologies import build
from trackbed.prove.findings import Measurement, ProofVerdict, count_verdicts, judge
from trackbed.prove.rounds import plan_screen


@pytest.mark.parametrize(
    ("measurement", "class_median", "verdict"),
    [
        pytest.param(Measurement(388, 400), None, "pass", id="97 % of the rate"),
        pytest.param(Measurement(380, 400), None, "pass", id="95 %"),
        pytest.param(Measurement(379, 400), None, "warn", id="under 95 %"),
        pytest.param(Measurement(360, 400), None, "warn", id="90 %"),
        pytest.param(Measurement(359, 400), None, "fail", id="under 90 %"),
        pytest.param(Measurement(0, 400), None, "fail", id="nothing"),
        pytest.param(Measurement(382, 400), 0.99, "warn", id="under 97 % of its class"),
        pytest.param(Measurement(385, 400), 0.99, "pass", id="within its class"),
        pytest.param(Measurement(245, 400, 256), None, "fail", id="as fast as a narrow slot"),
        pytest.param(Measurement(388, 400, 504), None, "pass", id="a wide slot"),
        pytest.param(Measurement(388, 400, None, "ip"), None, "pass", id="IP is judged as such"),
        pytest.param(Measurement(100, 400, None, "ip"), None, "fail", id="IP alone can fail"),
        pytest.param(Measurement(388, None), None, "unknown", id="no negotiated rate"),
        pytest.param(Measurement(388, 0), None, "unknown", id="a rate of zero"),
        pytest.param(Measurement(None, 400), None, "unknown", id="a value that nobody could read"),
        pytest.param(Measurement(math.nan, 400), None, "unknown", id="not a number"),
        pytest.param(Measurement(math.inf, 400), None, "unknown", id="infinite"),
        pytest.param(Measurement(-1, 400), None, "unknown", id="negative"),
        pytest.param(Measurement(421, 400), None, "unknown", id="more than the rate"),
        pytest.param(Measurement(39, 400, share=0.1), None, "pass", id="a share of the rate"),
        pytest.param(Measurement(35, 400, share=0.1), None, "fail", id="under 90 % of the share"),
        pytest.param(Measurement(80, 400, share=0.1), None, "unknown", id="more than the share"),
        pytest.param(Measurement(40, 400, 64, share=0.1), None, "pass", id="a share that a narrow slot allows"),
        pytest.param(None, None, "not-tested", id="planned, without a value"),
    ],
)
def test_a_value_is_judged_by_rate_slot_and_class(
    measurement: Measurement | None, class_median: float | None, verdict: ProofVerdict
) -> None:
    finding = judge(measurement, class_median)
    assert finding.verdict == verdict
    assert "None" not in finding.reason


def test_a_narrow_slot_is_named() -> None:
    assert judge(Measurement(245, 400, 256)).reason == (
        "61% of the ports' 400 Gb/s: PCIe allows 256 Gb/s; compare lanes and speed of the slot (lspci -vv, LnkSta)"
    )


@given(st.data())
def test_planned_is_tested_and_not_tested_under_any_loss(data: st.DataObject) -> None:
    planned = [pair for tests in plan_screen(build(9, 4, 2)) for pair in zip(tests.a, tests.b, strict=True)]
    values = data.draw(
        st.lists(st.none() | st.floats(0, 500), min_size=len(planned), max_size=len(planned)), label="values"
    )
    counts = count_verdicts(judge(None if value is None else Measurement(value, 400)) for value in values)
    assert sum(counts.values()) == len(planned)
    assert counts["not-tested"] == values.count(None)
