"""Fronts over several moments of the cluster."""

import numpy as np
import pytest

from apps.accounts.models import User
from apps.common.core.errors import InvalidInputError
from apps.operations.core.states import OperationStatus
from apps.placement.core.front.archive import losses
from apps.placement.core.front.mix import mix_of
from apps.placement.core.problem.examples import generate_instance
from apps.placement.core.problem.instance import Instance
from apps.placement.core.problem.objectives import evaluate
from apps.placement.models import Front
from apps.placement.selectors import fronts as selectors
from apps.placement.services.front.fronts import (
    FrontRequest,
    Workload,
    request_front,
    search_next_front,
)
from apps.placement.services.preference.checks import await_solver_answer, solve_and_store
from tests import factories
from tests.placement.front_world import REAL, empty, ticking, versions


@pytest.fixture
def olga(db: None) -> User:
    return factories.user("olga")


def moments_front(olga: User, *moments: float) -> tuple[Front, list[Instance]]:
    """A searched front over moments, each with an instance of its own."""
    instances = {at_s: generate_instance(REAL, place) for place, at_s in enumerate(moments)}
    factories.cluster(seen_cluster_s=90_000.0)
    request = FrontRequest(budget_s=6.0, seed=0, moments=moments)
    front = request_front(request, by=olga.pk)

    def read(at_s: float | None) -> Workload:
        assert at_s is not None
        return Workload(instances[at_s], at_s)

    search_next_front(read, clock=ticking())
    front.refresh_from_db()
    assert front.operation.status == OperationStatus.SUCCEEDED, front.operation.problem
    return front, list(instances.values())


def test_a_front_over_moments_averages_their_objectives(olga: User) -> None:
    front, instances = moments_front(olga, 3600.0, 5400.0, 7200.0)
    assert (front.moments, front.cluster_s) == ([3600.0, 5400.0, 7200.0], 7200.0)
    version = versions(front)[-1]
    points, placed = selectors.points_of(version), selectors.assignments_of(version.pk)
    assert placed.shape == (version.shown, 3 * 24)
    for point in range(version.shown):
        each = [
            evaluate(instance, placed[point, 24 * m : 24 * (m + 1)]).raw
            for m, instance in enumerate(instances)
        ]
        mean = [np.mean([values[name] for values in each]) for name in "PDC"]
        assert points.raw[point] == pytest.approx(mean)
    divisors = [front.scales[name] for name in "PDC"]
    assert points.normalised == pytest.approx(points.raw / divisors)
    losses_of = losses(points.normalised)
    assert not any(
        (other <= one).all() and (other < one).any() for one in losses_of for other in losses_of
    )


def test_a_front_over_moments_has_their_mean_mix_and_names_their_containers(olga: User) -> None:
    front, instances = moments_front(olga, 3600.0, 7200.0)
    counted = [sum(mix_of(instance)["containers"].values()) for instance in instances]
    assert sum(front.mix["containers"].values()) == sum(counted)
    assert front.mix["nodes"] == mix_of(instances[-1])["nodes"]
    version = versions(front)[-1]
    placed = selectors.placed_containers(front, selectors.assignments_of(version.pk)[0])
    assert len(placed) == 48
    assert {name.partition("@")[2] for name in placed} == {"3600", "7200"}


def test_moments_without_containers_are_left_out(olga: User) -> None:
    factories.cluster(seen_cluster_s=90_000.0)
    instance = generate_instance(REAL, 1)
    request = FrontRequest(budget_s=3.0, seed=0, moments=(60.0, 7200.0))
    front = request_front(request, by=olga.pk)
    search_next_front(
        lambda at_s: Workload(empty() if at_s == 60.0 else instance, at_s or 0.0),
        clock=ticking(),
    )
    front.refresh_from_db()
    assert front.moments == [7200.0]
    assert versions(front)


def test_a_later_moment_than_now_is_refused(olga: User) -> None:
    factories.cluster(seen_cluster_s=7200.0)
    request = FrontRequest(budget_s=3.0, seed=0, moments=(3600.0, 7300.0))
    with pytest.raises(InvalidInputError, match="must not be later"):
        request_front(request, by=olga.pk)


def test_the_solver_is_checked_on_the_mean_over_the_moments(olga: User) -> None:
    front, instances = moments_front(olga, 3600.0, 7200.0)
    weights = {"P": 1.0, "D": 0.5, "C": 0.3}
    solve_and_store("over-moments", front.pk, weights)
    answer = await_solver_answer("over-moments")
    value = sum(
        sign * weights[name] * answer.normalised[name]
        for name, sign in (("P", 1.0), ("D", -1.0), ("C", 1.0))
    )
    assert pytest.approx(value) == answer.F
    points = selectors.points_of(versions(front)[-1]).normalised
    best = (points * (1.0, -0.5, 0.3)).sum(axis=1).min()
    assert best + 1e-6 >= answer.F or answer.gap is None or answer.gap > 0.0
    assert answer.normalised["P"] == pytest.approx(answer.raw["P"] / front.scales["P"])
    assert len(instances) == 2
