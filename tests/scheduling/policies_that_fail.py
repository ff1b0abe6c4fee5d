"""Policies of another package that fail in one way each."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, cast

import numpy as np
import pytest

from apps.inventory.core.snapshot import Snapshot
from apps.scheduling.core import registry
from apps.scheduling.core.types import Placed, Policy, Refused, Request

Outcomes = list[Placed | Refused]


def _raises(outcomes: Outcomes) -> Outcomes:
    raise KeyError("rack-7")


def _misses_a_job(outcomes: Outcomes) -> Outcomes:
    return outcomes[1:]


def _returns_none(outcomes: Outcomes) -> Any:
    return None


def _decides_nothing(outcomes: Outcomes) -> Any:
    return [None] * len(outcomes)


def _chooses_no_unit_of_the_cluster(outcomes: Outcomes) -> Outcomes:
    return [
        replace(each, units=each.units * 0 + 10**6) if isinstance(each, Placed) else each
        for each in outcomes
    ]


def _fails_on_batches(outcomes: Outcomes) -> Outcomes:
    if len(outcomes) > 1:
        raise ValueError("1 outcome at most")
    return outcomes


_CHANGES: Final[dict[str, Callable[[Outcomes], Any]]] = {
    "none": lambda outcomes: outcomes,
    "raises": _raises,
    "misses-a-job": _misses_a_job,
    "returns-none": _returns_none,
    "decides-nothing": _decides_nothing,
    "no-such-unit": _chooses_no_unit_of_the_cluster,
    "fails-on-batches": _fails_on_batches,
}
# the error that the shadow, the CLI and the log show for each fault
FAULTS: Final = {
    "raises": "the policy theirs failed with KeyError: 'rack-7'",
    "misses-a-job": "the policy theirs failed with ValueError: 0 outcomes for 1 job",
    "returns-none": (
        "the policy theirs failed with TypeError: object of type 'NoneType' has no len()"
    ),
    "cannot-be-made": "the policy theirs failed with OSError: no model file",
    "decides-nothing": (
        "the policy theirs failed with TypeError: an outcome is None, not Placed or Refused"
    ),
    "no-such-unit": (
        "the policy theirs failed with ValueError: it chose unit 1000000, which does not exist"
    ),
    "lacks-a-field": (
        "the policy theirs failed with AttributeError: "
        "'Unfinished' object has no attribute 'draws_sample'"
    ),
    "version-0": ("the policy theirs failed with ValueError: its version is 0, not 1 or more"),
}


class Theirs:
    """``least_loaded`` under another name, with a fault."""

    version = 1
    draws_sample = False

    def __init__(self, fault: str, *, name: str = "theirs") -> None:
        self.name = name
        self._policy, self._change = registry.make("least_loaded"), _CHANGES[fault]

    def place(
        self, snapshot: Snapshot, requests: Sequence[Request], rng: np.random.Generator
    ) -> Outcomes:
        """Decide, with the fault."""
        return self._change(self._policy.place(snapshot, requests, rng))


class Unfinished:
    """``least_loaded`` under another name, without ``draws_sample``."""

    version = 1

    def __init__(self, name: str) -> None:
        self.name, self.place = name, registry.make("least_loaded").place


def _version_0(name: str) -> Policy:
    policy = Theirs("none", name=name)
    policy.version = 0
    return policy


def install(monkeypatch: pytest.MonkeyPatch, name: str, fault: str) -> None:
    """Add a policy to the registry; ``none`` = without a fault."""

    def make() -> Policy:
        if fault == "cannot-be-made":
            raise OSError("no model file")
        if fault == "version-0":
            return _version_0(name)
        if fault == "lacks-a-field":
            return cast("Policy", Unfinished(name))
        return Theirs(fault, name=name)

    monkeypatch.setitem(registry.POLICIES, name, registry.Entry(make, "a test", "free cores"))
