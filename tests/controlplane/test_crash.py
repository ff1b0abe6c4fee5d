"""kill -9 of any process at any point of a replay: nothing is lost, doubled or stuck.

The moments of the kills are drawn from a seed; what must hold afterwards does not depend on them.
A stage of its own in `.ci/run`: it takes half a minute, so ``./dev test`` leaves it out, and
``./dev test -m crash`` runs it. ``./dev bench crash`` does the same for as long as one likes.
"""

import pytest

from benchmarks.crash import Soak, soak

pytestmark = [pytest.mark.service, pytest.mark.crash]


def test_kill_9_of_any_process_loses_doubles_and_sticks_nothing() -> None:
    assert "All checks hold." in soak(Soak())
