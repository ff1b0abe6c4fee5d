"""Dry runs predict the decision of the agent and suggest feasible targets."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from apps.classification.core.profile import Profile
from apps.inventory.core.snapshot import Snapshot
from apps.scheduling.core.dry_run import DryRunJob, DryRunResult, dry_run
from apps.scheduling.core.policies import AssembledPolicy, least_loaded, tarcil
from apps.scheduling.core.requests import cluster_facts
from apps.scheduling.core.sizing.allowances import INTERFERENCE_ALLOWANCE
from apps.scheduling.core.start_of_check import NewStart, from_start
from apps.scheduling.core.types import Placed, Refused
from apps.workloads.core.reasons import Reason
from apps.workloads.core.spec import JobSpec, parse_job
from tests.classification.core.profiles import profile
from tests.scheduling.core.clusters import idle, loaded, topology

CLUSTER = topology((16, 8) * 20)
GIGABYTE = 10**9


def spec_of(fields: Mapping[str, Any]) -> JobSpec:
    job = {
        "application": "a",
        "target": {"kind": "completion_time", "seconds": 100},
        "input_bytes": 9 * GIGABYTE,
    }
    return parse_job({**job, **fields})


def checked(
    of: Profile | None,
    snapshot: Snapshot | None = None,
    *,
    by: Callable[[], AssembledPolicy] = tarcil,
    **fields: Any,
) -> DryRunResult:
    """Run a dry run of a job of 9 GB at 100 MB/s per unit, due in 100 s by default."""
    policy, rng, seen = by(), np.random.default_rng(1), snapshot or idle(CLUSTER)

    def decide(job: DryRunJob) -> Placed | Refused:
        (outcome,) = policy.place(seen, [job.request], rng)
        return outcome

    return dry_run(spec_of(fields), of, seen, policy, decide)


def test_a_job_that_fits_would_start_now() -> None:
    answer = checked(profile(bytes_rate=1e8))
    assert (answer.outcome, answer.feasible) == ("placed", True)
    assert answer.units == 2  # 9 GB in 100 s are 90 MB/s, and 90 of a unit's 100 are counted on
    assert answer.predicted is not None
    assert answer.predicted <= 100.0
    assert len(answer.servers) >= 1
    assert {candidate["verdict"] for candidate in answer.candidates} >= {"chosen"}
    assert answer.probability == pytest.approx(0.8**16 + 16 * 0.2 * 0.8**15)


def test_candidates_of_a_policy_without_quality_are_ranked_lower() -> None:
    candidates = checked(profile(bytes_rate=1e8), units=1, by=least_loaded).candidates
    texts = [(row["quality"], row["verdict_text"]) for row in candidates]
    assert set(texts) == {(None, "chosen"), (None, "ranked lower")}


def test_an_unknown_application_would_be_profiled_first() -> None:
    answer = checked(None)
    assert (answer.outcome, answer.feasible) == ("profiling", None)


def test_a_short_job_of_an_unknown_application_would_not_be_profiled() -> None:
    answer = checked(None, target={"kind": "best_effort"}, input_bytes=10**7)
    assert (answer.outcome, answer.reason) == ("profiling", "PlacedAtRandom")
    assert "starts at once" in answer.summary


def test_an_infeasible_target_gets_a_feasible_suggestion() -> None:
    answer = checked(profile(bytes_rate=1e8), target={"kind": "completion_time", "seconds": 0.1})
    assert (answer.outcome, answer.feasible) == ("infeasible", False)
    (suggestion,) = answer.suggestions
    again = checked(profile(bytes_rate=1e8), target=dict(suggestion.target))
    assert again.feasible is True


def test_a_job_waits_if_the_cluster_is_full() -> None:
    full = loaded(CLUSTER, 1.0, np.random.default_rng(2))
    answer = checked(profile(bytes_rate=1e8), full)
    assert (answer.outcome, answer.feasible, answer.reason) == ("waits", True, "NoFreeUnit")


def test_constraints_without_a_matching_server_are_infeasible() -> None:
    nowhere, target = {"platforms": ["zz"]}, {"kind": "best_effort"}
    missing = checked(profile(bytes_rate=1e8), constraints=nowhere, target=target)
    assert missing.reason == "NoMatchingServer"
    assert missing.summary == "The job cannot start: allow a platform that the cluster has."
    answer = checked(profile(bytes_rate=1e8), constraints={"labels": {"gpu": "yes"}})
    assert (answer.outcome, answer.reason) == ("infeasible", "NoMatchingServer")


def test_a_gang_larger_than_the_cluster_cannot_start() -> None:
    answer = checked(profile(bytes_rate=1e8), units=5000, gang=True)
    assert (answer.outcome, answer.reason) == ("infeasible", "NoMatchingServer")
    assert answer.summary.startswith("The job cannot start: ")


def test_a_job_that_may_start_later_would_wait() -> None:
    full = loaded(CLUSTER, 1.0, np.random.default_rng(2))
    assert checked(profile(bytes_rate=1e8), full).summary.startswith("The job would wait: ")


def test_best_effort_is_predicted_as_a_share_of_its_input() -> None:
    target = {"kind": "best_effort"}
    answer = checked(profile(bytes_rate=1e8), target=target)
    assert answer.predicted == pytest.approx(1e8 * INTERFERENCE_ALLOWANCE / (9 * GIGABYTE))
    assert answer.feasibility is not None
    without = checked(profile(bytes_rate=1e8), target=target, input_bytes=0)
    assert (without.outcome, without.units, without.predicted) == ("placed", 1, None)
    assert without.feasibility is None


def from_start_at(p50_s: float | None, p90_s: float | None = None, **fields: Any) -> DryRunResult:
    """Check the job on a full cluster; ``p50_s`` and ``p90_s`` are its predicted start."""
    full = loaded(CLUSTER, 1.0, np.random.default_rng(2))
    result = checked(profile(bytes_rate=1e8), full, **fields)
    return from_start(spec_of(fields), result, NewStart(p50_s, p90_s))


def test_a_job_that_waits_is_predicted_from_its_start() -> None:
    now = from_start_at(0.0, 0.0)
    late = from_start_at(50.0, 50.0)
    assert (now.units, late.units) == (2, 3)  # half of the time is left for the run
    assert now.predicted is not None
    assert late.predicted is not None
    assert 50.0 < late.predicted <= 100.0 < 50.0 + now.predicted + 10.0
    assert late.feasibility is not None
    assert late.feasibility.value[2, 0] == pytest.approx(late.predicted)


def test_the_spread_of_the_start_lowers_the_probability_of_the_target() -> None:
    sure, spread = from_start_at(50.0, 50.0), from_start_at(50.0, 200.0)
    assert sure.probability_met is not None
    assert spread.probability_met is not None
    assert 0.4 < spread.probability_met < 0.7 < sure.probability_met
    assert sure.high is not None
    assert spread.high is not None
    assert spread.high > 200.0 > sure.high


def test_a_job_that_starts_too_late_gets_a_target_that_can_be_met() -> None:
    late = from_start_at(500.0, 600.0)
    assert (late.outcome, late.feasible, late.probability_met) == ("waits", False, 0.0)
    (suggestion,) = late.suggestions
    again = from_start_at(500.0, 600.0, target=dict(suggestion.target))
    assert again.feasible is True
    assert again.probability_met is not None
    assert again.probability_met > 0.9


def test_an_unknown_start_leaves_a_completion_time_unknown() -> None:
    unknown = from_start_at(None)
    assert (unknown.predicted, unknown.probability_met) == (None, None)
    half_known = from_start_at(50.0, None)
    assert half_known.predicted is not None
    assert (half_known.high, half_known.probability_met) == (None, None)
    share = from_start_at(None, target={"kind": "best_effort"})
    assert share.predicted is not None


def test_a_fixed_size_that_starts_after_its_target_cannot_meet_it() -> None:
    assert from_start_at(50.0, 60.0, units=5).feasible is True
    late = from_start_at(500.0, 600.0, units=5)
    assert (late.units, late.feasible, late.predicted) == (5, False, None)


def test_a_fixed_size_is_kept_without_a_prediction() -> None:
    answer = checked(profile(bytes_rate=1e8), units=5)
    assert (answer.units, answer.predicted, answer.probability_met) == (5, None, None)


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


def test_the_snapshot_does_not_change() -> None:
    snapshot = idle(CLUSTER)
    checked(profile(bytes_rate=1e8), snapshot)
    assert snapshot.unit_free.all()


def test_sizing_uses_the_units_of_open_servers() -> None:
    closed = np.arange(CLUSTER.server_id.size) != 0
    facts = cluster_facts(replace(idle(CLUSTER), server_open=closed), CLUSTER.platform_name)
    assert facts.platforms == ("J", "A")
    assert facts.units == (304, 160)
    assert facts.server_units == (16, 8)


def test_too_many_queries_get_a_lower_suggestion_in_plain_digits() -> None:
    target = {"kind": "throughput_latency", "qps": 10**9, "latency_seconds": 1, "percentile": 99}
    answer = checked(profile(kind="latency_critical", base_rate=1e3), target=target, input_bytes=0)
    (suggestion,) = answer.suggestions
    assert suggestion.text == f"{suggestion.target['qps']:,.0f} queries/s, p99 within 1000 ms"
    assert checked(profile(base_rate=1e3), target=dict(suggestion.target)).feasible is True
