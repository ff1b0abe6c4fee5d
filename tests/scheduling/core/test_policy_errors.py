"""Outcomes of a policy that no agent may commit."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from apps.inventory.core.snapshot import Ints, Snapshot
from apps.scheduling.core import registry
from apps.scheduling.core.contract import SIZES, job, loaded
from apps.scheduling.core.policy_errors import PolicyFailedError, outcomes_of
from apps.scheduling.core.types import Placed, Refused, Request

BUSY = 25  # percent of the units


class Chooses:
    """A policy that places each job on given units."""

    name, version, draws_sample = "theirs", 1, False

    def __init__(self, *units: Sequence[int] | Ints, wanted: int | None = None) -> None:
        self._units, self._wanted = units, wanted

    def place(
        self, snapshot: Snapshot, requests: Sequence[Request], rng: np.random.Generator
    ) -> list[Placed | Refused]:
        """Place the jobs."""
        (placed,) = registry.make("least_loaded").place(snapshot, requests[:1], rng)
        assert isinstance(placed, Placed)
        placed = replace(placed, wanted=self._wanted)
        return [replace(placed, units=np.array(each, dtype=np.int32)) for each in self._units]


def outcomes(
    *units: Sequence[int] | Ints,
    asked: int | None = None,
    wanted: int | None = None,
    **request: Any,
) -> Any:
    snapshot = loaded(SIZES, BUSY, 3)
    requests = [job(len(each) if asked is None else asked, **request) for each in units]
    return outcomes_of(
        Chooses(*units, wanted=wanted), snapshot, requests, np.random.default_rng(1)
    )


def test_free_units_are_accepted() -> None:
    free = np.flatnonzero(loaded(SIZES, BUSY, 3).unit_free)
    assert len(outcomes(free[:3], free[-2:])) == 2


def test_the_first_and_the_last_unit_exist() -> None:
    snapshot = loaded(SIZES, 0, 3)
    last = snapshot.unit_free.size - 1
    requests = [job(2)]
    assert outcomes_of(Chooses([0, last]), snapshot, requests, np.random.default_rng(1))


@pytest.mark.parametrize("distance", [0, 1000])
def test_a_unit_must_exist(distance: int) -> None:
    unit = loaded(SIZES, BUSY, 3).unit_free.size + distance
    with pytest.raises(PolicyFailedError) as error:
        outcomes([unit])
    assert error.value.detail.endswith(f"it chose unit {unit}, which does not exist")


def test_a_unit_is_not_counted_from_the_end() -> None:
    with pytest.raises(PolicyFailedError) as error:
        outcomes([-1])
    assert error.value.detail.endswith("it chose unit -1, which does not exist")


def test_a_unit_must_be_free() -> None:
    busy = int(np.flatnonzero(~loaded(SIZES, BUSY, 3).unit_free)[0])
    with pytest.raises(PolicyFailedError) as error:
        outcomes([busy])
    assert error.value.detail.endswith(f"it chose unit {busy}, which is busy")


def test_a_unit_is_chosen_once_by_all_jobs_of_a_batch() -> None:
    first, second, *_ = (int(u) for u in np.flatnonzero(loaded(SIZES, BUSY, 3).unit_free))
    for units in ([[first, second], [second]], [[second, first, second]]):
        with pytest.raises(PolicyFailedError) as error:
            outcomes(*units)
        assert error.value.detail.endswith(f"it chose unit {second}, which it chose before")


@pytest.mark.parametrize(
    ("chosen", "gang", "accepted"),
    [(0, False, "1 .. 3"), (4, False, "1 .. 3"), (2, True, "3 .. 3"), (4, True, "3 .. 3")],
)
def test_a_job_gets_as_many_units_as_it_accepts(chosen: int, accepted: str, *, gang: bool) -> None:
    free = np.flatnonzero(loaded(SIZES, BUSY, 3).unit_free)
    assert outcomes(free[:3], asked=3, gang=gang)
    with pytest.raises(PolicyFailedError) as error:
        outcomes(free[:chosen], asked=3, gang=gang)
    assert error.value.detail.endswith(f"it chose {chosen} units, not {accepted}")


def test_a_policy_may_choose_the_number_of_units_itself() -> None:
    free = np.flatnonzero(loaded(SIZES, BUSY, 3).unit_free)
    assert outcomes(free[:5], asked=3, wanted=5)
