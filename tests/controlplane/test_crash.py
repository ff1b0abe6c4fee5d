"""kill -9 of any process at any point of a replay: nothing is lost, doubled or stuck.

The moments of the kills are drawn from a seed; what must hold afterwards does not depend on them.
A stage of its own in `.ci/run`: it takes half a minute, so ``./dev test`` leaves it out, and
``./dev test -m crash`` runs it. ``./dev bench crash`` repeats it with other kills.
"""

import pytest

from benchmarks.crash import CrashTest, run_crash_test

pytestmark = [pytest.mark.service, pytest.mark.crash]


def test_kill_9_of_any_process_loses_and_duplicates_nothing() -> None:
    assert "All checks passed." in run_crash_test(CrashTest())
