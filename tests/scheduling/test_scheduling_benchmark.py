"""`./dev bench scheduling`, with the smallest clusters."""

import pytest

from benchmarks import _scheduling_decisions as decisions


@pytest.mark.parametrize("policy", ["expected", "tarcil"])
def test_a_turn_decides_builds_the_records_and_commits(policy: str) -> None:
    seconds, record_bytes = decisions.Turns(400, policy).run()
    assert seconds > 0.0
    assert 300 < record_bytes < 1024
