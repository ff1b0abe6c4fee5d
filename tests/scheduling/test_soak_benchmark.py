"""The checks by which the soak benchmark judges its run."""

from dataclasses import replace

import pytest

from benchmarks.soak import LATE_S, Soak, table

SOUND = Soak(
    units=400, submitted=100, kills=30, checks=60, busy=[0.9, 1.0],
    ends={"succeeded, 1 launch": 100}, waits_s=[600.0, 1200.0], late_s=[-60.0, 30.0],
)  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "is_sound"),
    [
        ({}, True),
        ({"violations": ["12 s: no unit was held twice at once (allocations): unit 7"]}, False),
        ({"ends": {"succeeded, 1 launch": 99, "succeeded, 2 launches": 1}}, False),
        ({"ends": {"succeeded, 1 launch": 99}}, False),
        ({"late_s": [LATE_S + 1.0]}, False),
    ],
    ids=["sound", "violation", "second launch", "lost", "late gang"],
)
def test_one_violation_lost_job_or_late_gang_is_not_sound(
    changes: dict[str, object], is_sound: bool
) -> None:
    assert replace(SOUND, **changes).is_sound is is_sound  # type: ignore[arg-type]


def test_the_table_shows_wall_seconds() -> None:
    shown = dict(table(SOUND)[1:])
    assert shown["longest wait of a gang, wall s"] == "20.0"
    assert shown["gangs that started after the promised time"] == "1"
    assert shown["lateness, wall s"] == "0.5 s at most"
    assert shown["units busy, mean"] == "95%"
