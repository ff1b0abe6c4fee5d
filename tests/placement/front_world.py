"""Fronts for tests: real searches of small instances with a counting clock."""

from collections.abc import Callable
from itertools import count
from typing import Any

from apps.accounts.models import User
from apps.placement.core.preference.derivation import PreferenceInput
from apps.placement.core.problem.examples import InstanceSpec, generate_instance
from apps.placement.core.problem.instance import Instance
from apps.placement.models import Front, FrontVersion, PreferenceSet
from apps.placement.selectors.preferences import FrontPicking
from apps.placement.services.front.fronts import (
    FrontRequest,
    Workload,
    request_front,
    search_next_front,
)
from apps.placement.services.preference.sets import NewPreferenceSet, create_preference_set

REAL = InstanceSpec(
    containers=24, nodes=20, nodes_per_rack=5, largest=4, has_real_intensities=True, kinds=2
)
PLAIN = InstanceSpec(containers=20, nodes=20, nodes_per_rack=10, largest=4)


def ticking(step: float = 0.01) -> Callable[[], float]:
    """A clock that advances by ``step`` whenever it is read."""
    reads = count()
    return lambda: next(reads) * step


def stopped_clock() -> float:
    """A clock that never advances."""
    return 0.0


def nothing_runs(at_s: float | None) -> Workload:
    """A workload reader that must not be called."""
    raise AssertionError(f"the cluster was read at {at_s}")


def requested_front(by: User, instance: Instance | None = None, **values: Any) -> Front:
    """A queued front of an instance."""
    of = generate_instance(REAL, 1) if instance is None else instance
    settings: dict[str, Any] = {"budget_s": 3.0, "seed": 0, "instance": of}
    return request_front(FrontRequest(**{**settings, **values}), by=by.pk)


def preference_set(by: User, name: str) -> PreferenceSet:
    """A preference set with equal weights."""
    picking = PreferenceInput("direct", wanted={"P": 1.0, "D": 1.0, "C": 1.0})
    return create_preference_set(NewPreferenceSet(name, "", FrontPicking(picking, None)), by=by.pk)


def searched_front(by: User, instance: Instance | None = None, **values: Any) -> Front:
    """A front that a worker has searched."""
    front = requested_front(by, instance, **values)
    search_next_front(nothing_runs, clock=ticking())
    front.refresh_from_db()
    return front


def versions(front: Front) -> list[FrontVersion]:
    return list(front.versions.order_by("number"))


def empty() -> Instance:
    return generate_instance(PLAIN.__class__(containers=0, nodes=4), 0)
