from __future__ import annotations

from datetime import UTC, datetime, timedelta

from trackbed.cluster.api.times import format_time
from trackbed.cluster.resources.railnode import Repair
from trackbed.node.sync.contest import (
    SettingKey,
    add_repairs,
    build_contested_condition,
    list_contested,
    update_repairs,
)

START = datetime(2026, 1, 1, tzinfo=UTC)
PFC: SettingKey = ("qos", "PFC of rail0")
ETS: SettingKey = ("qos", "traffic classes of rail0")


def after(minutes: float) -> datetime:
    return START + timedelta(minutes=minutes)


def drift(*minutes: float, repairs: tuple[Repair, ...] = (), key: SettingKey = PFC) -> tuple[Repair, ...]:
    """The repairs after comparisons at these minutes, each of which finds that the setting differs."""
    for minute in minutes:
        repairs = update_repairs(repairs, {key}, "", after(minute))
        if key not in list_contested(repairs):
            repairs = add_repairs(repairs, [key], after(minute))
    return repairs


def test_a_setting_is_repaired_three_times_within_an_hour_and_then_contested() -> None:
    assert list_contested(drift(0, 10, 20)) == frozenset()
    repairs = drift(0, 10, 20, 30)
    assert list_contested(repairs) == {PFC}
    assert repairs[0].times == tuple(format_time(after(minute)) for minute in (0, 10, 20))


def test_repairs_more_than_an_hour_apart_are_no_contest() -> None:
    repairs = drift(0, 31, 62, 93, 124)
    assert (list_contested(repairs), len(repairs[0].times)) == (frozenset(), 2)


def test_each_setting_has_its_own_count() -> None:
    assert list_contested(drift(30, repairs=drift(0, 10, 20), key=ETS)) == frozenset()


def test_a_contest_lasts_while_the_setting_differs_however_long() -> None:
    assert list_contested(drift(0, 10, 20, *range(30, 600, 10))) == {PFC}


def test_a_contest_ends_once_the_setting_has_stayed_for_an_hour() -> None:
    repairs = drift(0, 10, 20, 30)
    for minute in range(40, 91, 10):
        repairs = update_repairs(repairs, (), "", after(minute))
        assert list_contested(repairs) == ({PFC} if minute < 90 else frozenset())
    assert repairs == ()


def test_a_contest_ends_when_an_operator_says_so() -> None:
    repairs = update_repairs(drift(0, 10, 20, 30), {PFC}, format_time(after(31)), after(31))
    assert repairs == ()


def test_no_more_repairs_are_kept_than_a_status_can_hold() -> None:
    repairs = add_repairs((), [("qos", str(number)) for number in range(99)], START)
    assert (len(repairs), repairs[-1].subject) == (50, "98")


def test_the_condition_names_the_writer_and_what_to_do() -> None:
    condition = build_contested_condition(
        "n0", drift(0, 10, 20, 30), {PFC: "none, not 3"}, {PFC[1]: ["lldpad runs (PID 812)"]}
    )
    assert condition is not None
    assert (condition.type, condition.status) == ("Contested", "True")
    assert condition.message == (
        "qos: PFC of rail0 was repaired 3 times within an hour and differs again: none, not 3; set by: lldpad runs"
        " (PID 812). Stop that, or plan its value; then kubectl annotate railnode n0 trackbed.dev/retry="
    )


def test_without_a_contest_there_is_no_condition() -> None:
    assert build_contested_condition("n0", drift(0, 10, 20), {}, {}) is None
