"""Entries of the registry: sources, formulas, parameters."""

import jsonschema
import numpy as np
import pytest

from apps.scheduling.core.registry import POLICIES, PolicyParameterError, make
from apps.scheduling.core.types import Placed
from tests.scheduling.core.clusters import idle, request, topology


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_an_entry_says_what_the_policy_is(name: str) -> None:
    entry = POLICIES[name]
    assert entry.source
    assert entry.formula
    assert entry.summary.endswith(".")
    schema = entry.schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    defaults = {each.name: each.default for each in entry.parameters}
    jsonschema.validate(defaults, schema)
    assert make(name, defaults).name == name


def test_a_parameter_changes_the_policy() -> None:
    (outcome,) = make("sampling", {"candidates": 5}).place(
        idle(topology((4,) * 20)), [request()], np.random.default_rng(1)
    )
    assert isinstance(outcome, Placed)
    assert outcome.examined == 5


@pytest.mark.parametrize("name", ["sampling", "paragon_sampling"])
def test_a_whole_number_may_be_written_with_a_decimal_point(name: str) -> None:
    (outcome,) = make(name, {"candidates": 5.0}).place(
        idle(topology((4,) * 20)), [request()], np.random.default_rng(1)
    )
    assert isinstance(outcome, Placed)
    assert outcome.examined == 5


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"candidates": 0}, "candidates must be a whole number in 1 .. 32, not 0"),
        ({"candidates": 4.5}, "candidates must be a whole number in 1 .. 32, not 4.5"),
        ({"candidates": True}, "must be a whole number"),
        ({"load": 1}, "sampling has the parameters candidates, not 'load'"),
    ],
)
def test_unusable_parameters_are_refused(parameters: dict[str, object], sentence: str) -> None:
    with pytest.raises(PolicyParameterError, match=sentence):
        make("sampling", parameters)


def test_a_policy_without_parameters_takes_none() -> None:
    with pytest.raises(PolicyParameterError, match="random has no parameters, so"):
        make("random", {"seed": 1})
