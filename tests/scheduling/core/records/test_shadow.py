"""Agreement and regret of a shadow, compared with values computed by hand."""

from typing import Any
from uuid import UUID

import numpy as np
import pytest

from apps.common.core.ids import uuid7
from apps.common.core.intervals import wilson
from apps.scheduling.core.records.shadow import (
    REFUSAL,
    Choice,
    Comparison,
    JobKind,
    comparison,
    is_sampled,
    kind_of,
)
from apps.scheduling.core.records.shadow_summary import Compared, Estimate, mean, share, summary
from apps.scheduling.core.types import Within
from tests.scheduling.core.clusters import request


def choice(units: str, *, performance: float = 1.0, neighbours: float = 1.0) -> Choice:
    """Units such as "a1 a2 b1" on servers a and b; a and b are of platform J, others of K."""
    names = units.split()
    servers = frozenset(name[0] for name in names)
    return Choice(
        units=frozenset(ord(name[0]) * 10 + int(name[1]) for name in names),
        servers=servers,
        platforms=frozenset("J" if server in "ab" else "K" for server in servers),
        performance=performance,
        neighbours=neighbours,
    )


@pytest.mark.parametrize(
    ("live", "shadow", "same"),
    [
        ("a1", "a1", (True, True, True)),
        ("a1 b2", "b2 a1", (True, True, True)),
        ("a1", "a2", (False, True, True)),
        ("a1 a2 b1", "a1 b1 b2", (False, True, True)),
        ("a1", "b1", (False, False, True)),
        ("a1 a2", "a1 b1", (False, False, True)),
        ("a1", "c1", (False, False, False)),
        ("a1 b1", "a1 c1", (False, False, False)),
    ],
)
def test_choices_agree_by_units_servers_and_platforms(
    live: str, shadow: str, same: tuple[bool, bool, bool]
) -> None:
    found = comparison(choice(live), choice(shadow))
    assert found is not None
    assert (found.same_units, found.same_servers, found.same_platforms) == same


def test_the_regret_is_the_part_of_the_job_and_that_of_its_neighbours() -> None:
    live = choice("a1", performance=0.9, neighbours=0.75)
    shadow = choice("c1", performance=0.65, neighbours=1.0)
    found = comparison(live, shadow)
    assert found is not None
    assert found.job == pytest.approx(0.25)
    assert found.neighbours == pytest.approx(-0.25)
    assert found.difference == pytest.approx(0.0)
    opposite = comparison(shadow, choice("b1", performance=0.55, neighbours=0.8))
    assert opposite is not None
    assert opposite.difference == pytest.approx(0.3)


def test_a_job_that_only_one_policy_places_has_no_regret() -> None:
    refused, placed = Choice(reason="NoFreeUnit"), choice("a1")
    assert comparison(placed, refused) == Comparison(False, False, False, None, None)
    assert comparison(refused, placed) == Comparison(False, False, False, None, None)
    assert Comparison(False, False, False, None, None).difference == REFUSAL
    assert comparison(refused, refused) is None


def test_a_refusal_is_stored_with_its_reason_and_without_a_prediction() -> None:
    assert Choice(reason="NoFreeUnit").as_json() == {
        "servers": [], "platforms": [], "units": 0, "performance": None, "neighbours": None,
        "reason": "NoFreeUnit",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"units": 1, "gang": True}, JobKind.ONE_UNIT),
        ({"units": 2, "gang": True}, JobKind.GANG),
        ({"units": 2, "locality": Within.RACK}, JobKind.GANG),
        ({"units": 2}, JobKind.INCREMENTAL),
        ({"units": 4, "spread": Within.SERVER}, JobKind.INCREMENTAL),
        ({"units": 4, "spread": Within.SERVER, "gang": True}, JobKind.GANG),
    ],
    ids=["one unit", "gang", "locality", "incremental", "spread", "gang with spread"],
)
def test_kinds_of_jobs(fields: dict[str, Any], kind: JobKind) -> None:
    assert kind_of(request(**fields)) == kind


def test_a_smaller_sample_is_a_part_of_a_larger_one() -> None:
    ids = [uuid7() for _ in range(4000)]
    tenth = {key for key in ids if is_sampled(key, 0.1)}
    half = {key for key in ids if is_sampled(key, 0.5)}
    assert tenth < half
    # five standard deviations of a binomial count: 5 sqrt(4000 p (1 - p))
    assert abs(len(tenth) - 400) < 95
    assert abs(len(half) - 2000) < 159
    assert all(is_sampled(key, 1.0) for key in [*ids, UUID(int=0), UUID(int=(1 << 128) - 1)])


# ---- summary ----


def compared(rows: list[tuple[int, str, str, float, float]]) -> Compared:
    """Rows of batch, who placed the job ("ls"), what is the same ("usp"), and both regrets."""
    batch, placed, same, job, neighbours = zip(*rows, strict=True) if rows else [()] * 5

    def flags(texts: tuple[str, ...], letter: str) -> np.ndarray:
        return np.array([letter in text for text in texts], dtype=np.bool_)

    return Compared(
        batch=np.array(batch, dtype=np.int64),
        live_placed=flags(placed, "l"),
        shadow_placed=flags(placed, "s"),
        same_units=flags(same, "u"),
        same_servers=flags(same, "s"),
        same_platforms=flags(same, "p"),
        job=np.array(job, dtype=np.float64),
        neighbours=np.array(neighbours, dtype=np.float64),
    )


NAN = float("nan")


def test_agreement_is_of_all_and_regret_of_those_that_both_placed() -> None:
    found = summary(
        compared(
            [
                (1, "ls", "usp", 0.0, 0.0),
                (1, "ls", "sp", 0.3, -0.1),
                (2, "ls", "p", 0.1, 0.0),
                (2, "l", "", NAN, NAN),
                (3, "s", "", NAN, NAN),
            ]
        )
    )
    counts = (found.decisions, found.both, found.only_live, found.only_shadow)
    assert counts == (5, 3, 1, 1)
    same = (found.same_units, found.same_servers, found.same_platforms)
    assert [each.value for each in same] == [0.2, 0.4, 0.6]
    assert (found.same_servers.low, found.same_servers.high) == pytest.approx(wilson(2, 5))
    assert found.regret.value == pytest.approx(0.1)  # (0.0 + 0.2 + 0.1) / 3
    assert found.job.value == pytest.approx(0.4 / 3)
    assert found.neighbours.value == pytest.approx(-0.1 / 3)
    assert found.regret.low is None  # two batches are too few for an interval


def test_nothing_is_known_without_a_decision() -> None:
    found = summary(compared([]))
    assert (found.decisions, found.both) == (0, 0)
    assert (found.same_units, found.regret) == (Estimate(None, None, None),) * 2


def test_the_interval_of_independent_values_is_that_of_a_normal_mean() -> None:
    values = np.arange(10, dtype=np.float64)
    found = mean(values, np.arange(10))
    assert found.value == 4.5
    half = 1.96 * float(values.std(ddof=1)) / np.sqrt(10.0)
    assert (found.low, found.high) == pytest.approx((4.5 - half, 4.5 + half))


def test_equal_decisions_of_a_batch_count_as_one() -> None:
    values = np.arange(10, dtype=np.float64)
    once = mean(values, np.arange(10))
    thrice = mean(np.repeat(values, 3), np.repeat(np.arange(10), 3))
    assert thrice == pytest.approx(once)


def test_the_interval_of_a_mean_holds_95_percent_of_the_time() -> None:
    rng = np.random.default_rng(7)
    held = 0
    for _ in range(400):
        of_batch = rng.normal(0.3, 1.0, size=50)
        sizes = rng.integers(1, 5, size=50)
        groups = np.repeat(np.arange(50), sizes)
        found = mean(of_batch[groups] + rng.normal(0.0, 0.5, size=groups.size), groups)
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 0.3 <= found.high
    # a normal interval of 50 groups covers some 94 %; 400 trials: 3 sqrt(0.94 0.06 / 400) = 0.036
    assert 0.90 <= held / 400 <= 0.98


def test_a_share_of_all_has_an_interval() -> None:
    found = share(np.ones(100, dtype=np.bool_))
    assert found.value == 1.0
    assert found.low == pytest.approx(0.963, abs=5e-4)
    assert found.high == pytest.approx(1.0)
