"""Options of the comparison of policies."""

from argparse import ArgumentTypeError
from typing import Any

import numpy as np
import pytest

from apps.scheduling.core.registry import DEFAULT
from benchmarks._results import load
from benchmarks.policies import PolicyRow, Run, as_json, names


def test_policies_are_read_in_their_order() -> None:
    assert names("tarcil,expected") == ["tarcil", "expected"]


def test_an_unknown_policy_is_refused_with_those_that_exist() -> None:
    with pytest.raises(ArgumentTypeError, match="no policy 'best'; the policies are expected, "):
        names("tarcil,best")


def one_run(seed: int, policy: str, overall: float, share: float) -> Run:
    found = PolicyRow(0.5, policy, 0.9, 0.8, 0.7, share, overall)
    return Run("paper", "inferred", seed, found)


def test_the_json_has_the_two_measures_by_world_profiles_load_and_policy() -> None:
    runs = [
        one_run(1, "expected", 0.8, 0.5),
        one_run(1, "random", 0.3, 0.125),
        one_run(2, "expected", 0.6, 0.25),
    ]
    key = {"world": "paper", "profiles": "inferred", "load": 0.5}
    answer: dict[str, Any] = as_json(runs)
    assert answer.keys() == {"default", "rows"}
    assert answer["default"] == DEFAULT
    expected, other = answer["rows"]
    assert expected == {
        **key,
        "policy": "expected",
        "seeds": [1, 2],
        "overall": pytest.approx(0.7),
        "at_095": 0.375,
    }
    assert other == {**key, "policy": "random", "seeds": [1], "overall": 0.3, "at_095": 0.125}


def test_no_policy_beats_the_default_on_both_measures_in_the_stored_result() -> None:
    cells: dict[tuple[str, str, float], dict[str, list[tuple[float, float]]]] = {}
    for found in load("policies")["figures"]:
        cell = cells.setdefault((found["world"], found["profiles"], found["load"]), {})
        measures = found["overall"], found["near_full_speed"]
        cell.setdefault(found["policy"], []).append(measures)
    assert len(cells) == 16
    for key, policies in cells.items():
        means = {name: np.mean(of_seeds, axis=0) for name, of_seeds in policies.items()}
        assert {"least_loaded", "random", "tarcil", "roomiest"} <= means.keys()
        better = [name for name, mean in means.items() if (mean > means[DEFAULT]).all()]
        assert better == [], key
