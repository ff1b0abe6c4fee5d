"""A dry run answers what the agent would decide, and when nothing would, what could."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from apps.classification.core.profile import Profile
from apps.inventory.core.snapshot import Snapshot
from apps.scheduling.core.ask import cluster_facts
from apps.scheduling.core.check import Checked, check
from apps.scheduling.core.policies import tarcil
from apps.workloads.core.reasons import Reason
from apps.workloads.core.spec import parse_job
from tests.classification.core.profiles import profile
from tests.scheduling.core.clusters import idle, loaded, topology

CLUSTER = topology((16, 8) * 20)
GIGABYTE = 10**9


def checked(of: Profile | None, snapshot: Snapshot | None = None, **fields: Any) -> Checked:
    """Check a job of 9 GB at 100 MB/s a unit, due in 100 s, unless told otherwise."""
    job = {
        "application": "a",
        "target": {"kind": "completion_time", "seconds": 100},
        "input_bytes": 9 * GIGABYTE,
        **fields,
    }
    rng = np.random.default_rng(1)
    return check(parse_job(job), of, snapshot or idle(CLUSTER), tarcil(), rng)


def test_a_job_that_fits_would_start_now() -> None:
    found = checked(profile(bytes_rate=1e8))
    assert (found.outcome, found.feasible) == ("placed", True)
    assert found.units == 2  # 9 GB in 100 s are 90 MB/s, and 90 of a unit's 100 are counted on
    assert found.predicted is not None
    assert found.predicted <= 100.0
    assert len(found.servers) >= 1
    assert {candidate["verdict"] for candidate in found.candidates} >= {"chosen"}
    assert found.probability == pytest.approx(0.8**16 + 16 * 0.2 * 0.8**15)


def test_an_unknown_application_would_be_profiled_first() -> None:
    found = checked(None)
    assert (found.outcome, found.feasible) == ("profiling", None)


def test_a_short_job_of_an_unknown_application_would_not_be_profiled() -> None:
    found = checked(None, target={"kind": "best_effort"}, input_bytes=10**7)
    assert (found.outcome, found.reason) == ("profiling", "PlacedAtRandom")
    assert "starts at once" in found.summary


def test_an_impossible_target_is_answered_with_one_that_is_possible() -> None:
    found = checked(profile(bytes_rate=1e8), target={"kind": "completion_time", "seconds": 0.1})
    assert (found.outcome, found.feasible) == ("infeasible", False)
    (suggestion,) = found.suggestions
    again = checked(profile(bytes_rate=1e8), target=dict(suggestion.target))
    assert again.feasible is True


def test_a_full_cluster_lets_the_job_wait() -> None:
    full = loaded(CLUSTER, 1.0, np.random.default_rng(2))
    found = checked(profile(bytes_rate=1e8), full)
    assert (found.outcome, found.feasible, found.reason) == ("waits", True, "NoFreeUnit")


def test_constraints_that_nothing_satisfies_make_it_infeasible() -> None:
    found = checked(profile(bytes_rate=1e8), constraints={"labels": {"gpu": "yes"}})
    assert (found.outcome, found.reason) == ("infeasible", "NoMatchingServer")


def test_a_fixed_size_is_kept_and_nothing_is_promised_for_it() -> None:
    found = checked(profile(bytes_rate=1e8), units=5)
    assert (found.units, found.predicted, found.probability_met) == (5, None, None)


def test_every_reason_has_a_meaning() -> None:
    full = loaded(CLUSTER, 1.0, np.random.default_rng(2))
    answers = [
        checked(None),
        checked(profile(bytes_rate=1e8)),
        checked(profile(bytes_rate=1e8), full),
    ]
    assert {Reason(answer.reason) for answer in answers} == {
        Reason.WAITING_FOR_PROFILE,
        Reason.STARTING,
        Reason.NO_FREE_UNIT,
    }


def test_the_snapshot_is_left_as_it_was() -> None:
    snapshot = idle(CLUSTER)
    checked(profile(bytes_rate=1e8), snapshot)
    assert snapshot.unit_free.all()


def test_sizing_counts_the_units_of_open_servers() -> None:
    closed = np.arange(CLUSTER.server_id.size) != 0
    facts = cluster_facts(replace(idle(CLUSTER), server_open=closed), CLUSTER.platform_name)
    assert facts.platforms == ("J", "A")
    assert facts.units == (304, 160)
    assert facts.server_units == (16, 8)


def test_too_many_queries_are_answered_with_fewer_in_plain_digits() -> None:
    target = {"kind": "throughput_latency", "qps": 10**9, "latency_seconds": 1, "percentile": 99}
    found = checked(profile(kind="latency_critical", base_rate=1e3), target=target, input_bytes=0)
    (suggestion,) = found.suggestions
    assert suggestion.text == f"{suggestion.target['qps']:,.0f} queries/s, p99 within 1000 ms"
    assert checked(profile(base_rate=1e3), target=dict(suggestion.target)).feasible is True
