"""The benchmark of the scenarios: its report and its arguments."""

import argparse
from pathlib import Path

import numpy as np
import pytest

from apps.testbed.core.scenarios import SCENARIOS
from benchmarks.scenarios import PolicyResult, line, run, saving, weights_in


def result(run_s: list[float], joules: list[float]) -> PolicyResult:
    total = np.array([sum(joules)])
    return PolicyResult(np.array([run_s]), np.array([joules]), total, total, 0.0, 0.0)


def test_a_day_without_its_trace_is_skipped_with_a_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = argparse.Namespace(data=tmp_path, hours=1.0, seeds=1, weights=None)
    run(SCENARIOS["facebook600"], options)
    assert "fb2009_day0.tsv.gz does not exist (--data)" in capsys.readouterr().out


def test_faster_runs_and_less_energy_are_positive() -> None:
    assert saving(np.array([[50.0, 200.0]]), np.array([[100.0, 200.0]])).split() == ["+25.0", "%"]
    text = line("x", result([50.0, 300.0], [1.0, 1.0]), result([100.0, 200.0], [2.0, 2.0]))
    assert "run time   +0.0 % (best +50 %, worst -50 %)" in text
    assert "energy per job  +50.0 % (best +50 %)" in text
    assert "cluster energy  +50.0 %" in text


def test_weights_are_three_numbers() -> None:
    assert weights_in("0.22,1,0.36") == {"P": 0.22, "D": 1.0, "C": 0.36}
    with pytest.raises(argparse.ArgumentTypeError, match="three weights"):
        weights_in("1,2")
