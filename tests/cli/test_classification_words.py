"""Output of the classification verbs, without a server."""

from typing import Any

import pytest

from controlplane.cli import matrices
from controlplane.cli.applications import _preview_table
from controlplane.cli.output import interval, scaled


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        ({"status": "failed", "problem": {"detail": "no rows"}}, "failed: no rows"),
        ({"status": "failed", "problem": None}, "failed: no reason given"),
        ({"status": "cancelled"}, "cancelled; the revision in force is unchanged"),
    ],
)
def test_an_unsuccessful_reclassification_is_explained(
    operation: dict[str, Any], message: str
) -> None:
    assert matrices._outcome(operation) == message


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0.0, "0"),
        (0.12345, "0.123"),
        (999.4, "999"),
        (999.6, "1 k"),
        (3.2e3, "3.2 k"),
        (-2e6, "-2 M"),
        (1.5e9, "1.5 G"),
        (7e12, "7 T"),
    ],
)
def test_numbers_are_scaled_by_thousands(value: float | None, text: str) -> None:
    assert scaled(value) == text


@pytest.mark.parametrize(
    ("cell", "unit", "text"),
    [
        (None, "seconds", "-"),
        ({"value": 90.0, "low": 60.0, "high": 120.0}, "seconds", "1.5 min (1.0 min to 2.0 min)"),
        ({"value": 2e6, "low": None, "high": None}, "bytes/s", "2 M"),
        (
            {"value": 0.01, "low": None, "high": None},
            "share of the work/s",
            "36 times its work per hour",
        ),
    ],
)
def test_intervals_are_in_the_unit_of_their_value(
    cell: dict[str, float | None] | None, unit: str, text: str
) -> None:
    assert interval(cell, unit) == text


JOB: dict[str, Any] = {
    "id": "j1",
    "name": "nightly",
    "state": "running",
    "units": {"before": 2, "after": 9},
    "units_held": 2,
    "platforms_gained": ["C"],
    "platforms_lost": ["A", "B"],
    "predicted": {"before": None, "after": None},
    "unit": "seconds",
    "feasible": {"before": True, "after": False},
    "good_servers": None,
    "servers": [
        {"server": "s1", "tightest": "tlb", "acceptable": {"before": True, "after": False}},
        {"server": "s2", "tightest": "tlb", "acceptable": {"before": True, "after": True}},
        {"server": "s3", "tightest": "tlb", "acceptable": {"before": False, "after": True}},
    ],
}
FOUND: dict[str, Any] = {
    "profile": None, "examined": 1000, "total": 1200, "changed": 1, "cells": [], "jobs": [JOB],
}  # fmt: skip


def test_a_preview_shows_examined_and_changed_jobs() -> None:
    first, never, _, headings, job = _preview_table(FOUND).splitlines()
    assert first == "Nothing was written. 1 of the first 1000 of 1200 jobs would change."
    assert never.startswith("The application has no profile yet")
    assert headings.split()[0] == "JOB"
    assert "2 -> infeasible (holds 2)" in job
    assert "+C -A -B" in job
    assert job.endswith("s1 too noisy (tlb), s3 quiet enough")
