"""`./dev bench scheduling`, with the smallest clusters."""

import pytest

from benchmarks import _scheduling_decisions as decisions
from benchmarks import scheduling


@pytest.mark.parametrize("policy", ["expected", "tarcil"])
def test_a_turn_decides_builds_the_records_and_commits(policy: str) -> None:
    seconds, record_bytes = decisions.Turns(400, policy).run()
    assert seconds > 0.0
    assert 300 < record_bytes < 1024


def test_decisions_have_a_round_of_turns_however_few_are_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(decisions, "spare_loaded_objects", lambda: None)  # of the whole process
    ((servers, rates, record_bytes),) = decisions.whole_decisions([400], turns=1)
    assert servers == 400
    assert rates.low > 0.0
    assert record_bytes > 300


def test_an_unknown_part_is_refused_with_those_that_exist(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        scheduling.main(["--only", "kernel,paths"])
    expected = "--only must name kernel, decision, greedy, conflicts, path, latency, not paths"
    assert expected in capsys.readouterr().err


def test_less_than_one_turn_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        scheduling.main(["--only", "greedy", "--turns", "0"])
    assert "--turns must be 1 or more, got 0" in capsys.readouterr().err
