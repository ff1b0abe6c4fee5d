"""Fronts for tests: searched for real, on small instances, by a clock that only counts."""

from collections.abc import Callable
from itertools import count
from typing import Any

from apps.accounts.models import User
from apps.placement.core.derivation import Picking
from apps.placement.core.examples import Draw, draw
from apps.placement.core.instance import Instance
from apps.placement.models import Front, PreferenceSet
from apps.placement.selectors.preferences import Picked
from apps.placement.services.fronts import NewFront, Workload, begin_front, search_waiting
from apps.placement.services.preferences import NewSet, keep_set

REAL = Draw(
    containers=24, nodes=20, nodes_per_rack=5, largest=4, has_real_intensities=True, kinds=2
)
PLAIN = Draw(containers=20, nodes=20, nodes_per_rack=10, largest=4)


def ticking(step: float = 0.01) -> Callable[[], float]:
    """A clock that goes on by ``step`` whenever somebody looks."""
    looks = count()
    return lambda: next(looks) * step


def stopped_clock() -> float:
    """A clock by which nothing takes any time."""
    return 0.0


def nothing_runs(at_s: float | None) -> Workload:
    """A cluster that nobody should look at."""
    raise AssertionError(f"nobody should read the cluster at {at_s}")


def asked(by: User, instance: Instance | None = None, **values: Any) -> Front:
    """A front that is wanted, of an instance."""
    of = draw(REAL, 1) if instance is None else instance
    wanted: dict[str, Any] = {"budget_s": 3.0, "seed": 0, "instance": of}
    return begin_front(NewFront(**{**wanted, **values}), by=by.pk)


def a_set(by: User, name: str) -> PreferenceSet:
    """A preference set that weighs everything alike."""
    picking = Picking("direct", wanted={"P": 1.0, "D": 1.0, "C": 1.0})
    return keep_set(NewSet(name, "", Picked(picking, None)), by=by.pk)


def found(by: User, instance: Instance | None = None, **values: Any) -> Front:
    """A front that a worker has searched."""
    front = asked(by, instance, **values)
    search_waiting(nothing_runs, clock=ticking())
    front.refresh_from_db()
    return front
