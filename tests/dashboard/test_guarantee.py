"""The sampling guarantee of a decision, and the measured ranks beside it."""

import numpy as np
import pytest

from apps.dashboard.selectors import explanation, sampling
from apps.testbed.models import SamplingCheck
from tests import factories

pytestmark = pytest.mark.django_db


def test_the_guarantee_says_chance_and_condition() -> None:
    bound = explanation.explanation(factories.decision(factories.job())).guarantee
    assert bound is not None
    assert bound.statement == (
        "8 of 100 examined: 16.8 % chance that the best is outside the top 20 %"
    )
    assert bound.formula == "x⁸ = 0.8⁸ = 0.17 per unit"
    assert bound.holds is None


def test_a_policy_that_compared_everything_examines_few_units_without_a_sample() -> None:
    """`least_loaded` rates only units of the emptiest servers, as no other can be better."""
    few = factories.decision(
        factories.job(),
        policy="least_loaded",
        reason_code="PlacedLeastLoaded",
        probability=0.0,
        sample_size=385,
        examined=385,
        eligible=1000,
    )
    bound = explanation.explanation(few).guarantee
    assert bound is not None
    assert bound.is_exhaustive
    assert bound.statement == "385 of 1,000 eligible units were examined: no other can be better"
    assert (bound.alternatives, bound.check, bound.holds) == ((), "", None)


def test_a_single_eligible_unit_is_told_as_the_only_one() -> None:
    one = factories.decision(factories.job(), probability=0.0, examined=1, eligible=1)
    bound = explanation.explanation(one).guarantee
    assert bound is not None
    assert bound.statement == "The only eligible unit was examined"


def test_a_refusal_promises_nothing() -> None:
    refused = factories.decision(factories.job(), outcome="refused")
    assert explanation.explanation(refused).guarantee is None


def test_live_quality_takes_ranked_one_unit_decisions_of_the_size_and_the_policy() -> None:
    job = factories.job()
    factories.decision(job, rank=0.3, policy="sampling")
    factories.decision(job, rank=0.9)
    factories.decision(job, rank=0.5)
    factories.decision(job, rank=0.1, units=4)
    factories.decision(job, rank=0.2, sample_size=16)
    factories.decision(job)
    assert sampling.quality("8", "live").ranks.tolist() == [0.5, 0.9]


def test_ranks_of_other_policies_say_nothing_about_a_decision() -> None:
    """They may not follow x^R."""
    job = factories.job()
    for rank in np.linspace(0.01, 0.2, sampling.ENOUGH_RANKS):
        factories.decision(job, rank=rank, policy="paragon_sampling")
        factories.decision(job, rank=rank, policy="paragon_sampling", sample_size=16)
    bound = explanation.explanation(factories.decision(job, rank=0.9)).guarantee
    assert bound is not None
    assert (bound.holds, bound.check) == (None, "1 measured ranks; 35 are needed")


def test_checked_quality_is_the_newest_run() -> None:
    for distance in (0.2, 0.01):
        SamplingCheck.objects.create(
            size=16, decisions=2000, ks_distance=distance, ks_discrete=0.0, xs=[0.5, 1.0],
            cdf=[0.1, 1.0], load=0.7,
        )  # fmt: skip
    measured = sampling.quality("16", "check")
    assert (measured.samples, measured.distance) == (2000, 0.01)


def test_an_unknown_sample_size_is_the_smallest() -> None:
    assert sampling.quality("7", "live").sample_size == 8
