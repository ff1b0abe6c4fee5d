"""Options of a setting of the Lab: what each accepts, and what is wrong with a value."""

from collections import ChainMap
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from apps.common.core.errors import FieldProblem
from apps.scheduling.core.registry import DEFAULT, POLICIES, parameter_problem
from apps.testbed.core.replay.model import Admission, ProfileSource
from apps.testbed.core.replay.queueing.registry import (
    TESTBED_POLICIES,
    queueing_parameter_problem,
    unused_options,
)
from apps.testbed.core.replay.weights import MIN_REBALANCE_S, weights_problem


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several names, which may be added to later."""

    names: Collection[str]

    @property
    def accepted(self) -> str:
        """What is accepted, in words."""
        return f"one of {', '.join(self.names)}"

    def accepts(self, value: object) -> bool:
        """Whether a value is accepted."""
        return isinstance(value, str) and value in self.names


@dataclass(frozen=True, slots=True)
class Range:
    """A number between two bounds, which are accepted."""

    low: float
    high: float
    is_whole: bool = False

    @property
    def accepted(self) -> str:
        """What is accepted, in words."""
        return f"a {'whole ' if self.is_whole else ''}number from {self.low:g} to {self.high:g}"

    def accepts(self, value: object) -> bool:
        """Whether a value is accepted."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return self.low <= value <= self.high and not (self.is_whole and value != int(value))


@dataclass(frozen=True, slots=True)
class Parameters:
    """Parameters of the policy of the setting, by name."""

    accepted: str = "an object with parameters of the policy"

    def accepts(self, value: object) -> bool:
        """Whether a value is an object; its parts depend on the policy."""
        return isinstance(value, Mapping)


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights of the objectives, by which running jobs migrate."""

    accepted: str = 'weights of P, D and C of at least 0, such as {"P": 0.22, "D": 1, "C": 0.36}'

    def accepts(self, value: object) -> bool:
        """Whether a value holds weights."""
        return isinstance(value, Mapping) and weights_problem(value) is None


# those of packages are added to POLICIES later; those of the testbed come last
COMPARED_POLICIES: Final = ChainMap[str, Any](TESTBED_POLICIES, POLICIES)
OPTIONS: Final[dict[str, Choice | Range | Parameters | Weights]] = {
    "policy": Choice(COMPARED_POLICIES.keys()),
    "profiles": Choice(tuple(ProfileSource)),
    "admission": Choice(tuple(Admission)),
    "patience_s": Range(0.0, 86_400.0),
    "agents": Range(1, 64, is_whole=True),
    "sync_s": Range(0.0, 3600.0),
    "decision_s": Range(0.0, 60.0),
    "retries": Range(0, 100, is_whole=True),
    "servers_share": Range(0.05, 1.0),
    "arrival_scale": Range(0.1, 10.0),
    "parameters": Parameters(),
    "weights": Weights(),
    "rebalance_s": Range(MIN_REBALANCE_S, 86_400.0),
}


FAILURES: Final = {"per_day": Range(0.1, 10_000.0), "repair_s": Range(1.0, 2_678_400.0)}


def option_problems(options: Mapping[str, Any], at: str) -> Iterator[FieldProblem]:
    """Yield what is wrong with the options of a setting; ``at`` is their JSON Pointer."""
    for name, value in options.items():
        if (option := OPTIONS.get(name)) is None:
            detail = f"unknown option; accepted: {', '.join(OPTIONS)}"
            yield FieldProblem(f"{at}/{name}", "unknown_field", detail)
        elif not option.accepts(value):
            detail = f"must be {option.accepted}, not {value!r}"
            yield FieldProblem(f"{at}/{name}", "unknown_value", detail)
    policy, parameters = options.get("policy", DEFAULT), options.get("parameters", {})
    if not isinstance(policy, str) or policy not in COMPARED_POLICIES:
        return
    is_queueing = policy in TESTBED_POLICIES
    problem_of = queueing_parameter_problem if is_queueing else parameter_problem
    for name, value in parameters.items() if isinstance(parameters, Mapping) else ():
        if problem := problem_of(policy, name, value):
            yield FieldProblem(f"{at}/parameters/{name}", "unknown_value", problem)
    for name in unused_options(options) if is_queueing else ():
        detail = f"{policy} has queues of its own, and does not use it"
        yield FieldProblem(f"{at}/{name}", "unknown_value", detail)
