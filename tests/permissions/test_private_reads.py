"""Pages and REST views read rows of single projects with what limits them to the caller."""

from pathlib import Path
from typing import Final

import pytest

from tests.permissions.private_reads import modules_of_pages_and_api, unlimited_reads

ROOT = Path(__file__).resolve().parent.parent.parent

# Reads without a limit, by what makes them harmless. Add one only if it names no job.
COUNTS: Final = "numbers over all jobs, which name none"
FOR_OPERATORS: Final = (
    "plans, preemptions and the cluster of all projects; operators and the loop only"
)
FOR_AGENTS: Final = "used by agents and backends, not by pages"
OF_ONE_USER: Final = "the view passes the caller, or admits administrators only"
COMBINED: Final = "the caller combines it with what limits it"
ALLOWED: Final = {
    **dict.fromkeys(
        (
            "dashboard.selectors.applications._annotated",
            "dashboard.selectors.overview._running",
            "dashboard.selectors.overview._waits",
            "dashboard.selectors.overview.attainment",
            "dashboard.selectors.overview.queue_by_reason",
            "dashboard.selectors.overview._ended_before",
            "dashboard.selectors.sampling.comparable_ranks",
            "dashboard.selectors.sampling._live_ranks",
            "dashboard.selectors.servers._caused_by_server",
            "dashboard.selectors.servers.considered",
            "dashboard.selectors.system._backends",
            "operations.selectors.complete_seq",
            "inventory.selectors.clock.last_clock_step",
            "operations.selectors.event_bounds",
            "placement.selectors.drift._measure_change",
            "placement.selectors.drift.front_coverage",
            "placement.selectors.preferences.share_of_targets_met",
            "workloads.selectors.name_search",
        ),
        COUNTS,
    ),
    **dict.fromkeys(
        (
            "dashboard.selectors.plans.counts",
            "dashboard.selectors.preemptions.decided_rows",
            "dashboard.selectors.preemptions.proposed_rows",
            "execution.selectors.preemption.jobs_to_preempt_for",
            "execution.selectors.preemption.preemptible_jobs",
            "execution.selectors.preemption.running_cluster",
            "execution.selectors.preemption.victims_are_stopping",
            "placement.selectors.cluster.read_cluster",
            "placement.selectors.drift.running_mix",
            "placement.selectors.plans.last_ordinal",
            "placement.selectors.plans.last_tick_event",
            "placement.selectors.plans.plans",
            "placement.selectors.plans.migrations_of",
            "placement.selectors.plans.proposed_count",
            "placement.selectors.plans.unfinished_plans",
            "placement.selectors.plans.open_plan",
            "placement.selectors.plans.capacity_steps",
            "placement.selectors.plans.stale_migrations",
            "placement.selectors.plans.migrating_jobs",
            "placement.selectors.plans.started_since",
            "placement.selectors.plans.plans_per_job",
            "placement.selectors.plans.recently_left_servers",
            "placement.selectors.plans.thrashing_report",
            "placement.selectors.plans.held_count",
            "placement.selectors.plans.job_changes_since",
        ),
        FOR_OPERATORS,
    ),
    **dict.fromkeys(
        (
            "execution.selectors.has_open_migrations",
            "execution.selectors.migrations",
            "execution.selectors.kubernetes.known_pods",
            "execution.selectors.slurm.known_jobs",
            "scheduling.selectors.profiles_with_decisions",
            "scheduling.selectors.beyond_tolerance_of",
            "scheduling.selectors._live_claims",
            "scheduling.selectors.claimed_jobs",
            "scheduling.selectors.fair_share.uses",
            "scheduling.selectors.queue.holdings",
            "scheduling.selectors.quotas.gangs_submitted_until",
            "scheduling.selectors.queue.recent_submissions",
            "scheduling.selectors.queue.run_time_history",
            "scheduling.selectors.queue.scored_estimates",
            "scheduling.selectors.queue.waiting_queue",
            "scheduling.selectors.shadows.decisions_after",
            "scheduling.selectors.waits.requested_per_s",
            "workloads.selectors.pending",
            "workloads.selectors.waiting_among",
            "workloads.selectors.waiting_projects",
            "workloads.selectors.locked_generation",
        ),
        FOR_AGENTS,
    ),
    **dict.fromkeys(
        (
            "accounts.selectors.live_tokens",
            "accounts.selectors.members_of",
            "accounts.selectors.users",
        ),
        OF_ONE_USER,
    ),
    **dict.fromkeys(
        (
            "classification.selectors.history.prediction_errors_of",
            "dashboard.selectors.decisions._made_until",
            "execution.selectors.migrations_of",
            "operations.selectors.events_after",
            "scheduling.api.reads.jobs_on",
            "scheduling.selectors.decisions.decisions_at",
            "scheduling.selectors.fair_share.is_counted",
            "scheduling.selectors.quotas.quota_rows",
            "scheduling.selectors.quotas.standings",
            "scheduling.selectors.reserved.reservation_rows",
            "scheduling.selectors.units_of_allocation",
            "scheduling.selectors.waits.start_scores",
            "scheduling.selectors.waits.waiting_counts",
            "scheduling.selectors.waits.waiting_jobs",
            "workloads.selectors.array_states",
            "workloads.selectors.batch_items",
            "workloads.selectors.batch_states",
        ),
        COMBINED,
    ),
}


def test_every_read_of_private_rows_is_limited_or_harmless() -> None:
    found = {
        name
        for module, source in modules_of_pages_and_api(ROOT)
        for name in unlimited_reads(module, source)
    }
    assert sorted(found - ALLOWED.keys()) == [], "take the caller or the visible jobs"
    assert sorted(ALLOWED.keys() - found) == [], "gone: delete their entries"


@pytest.mark.parametrize(
    "source",
    [
        "def tenancy(server: Server) -> list[Job]:\n    return list(Job.objects.all())",
        "def errors(name: str) -> object:\n    return PredictionError.objects.filter(n=name)",
        "_SQL = 'SELECT name FROM workloads_job'\n\ndef f() -> object:\n    return rows(_SQL)",
        "def f() -> object:\n    return rows('SELECT 1 FROM scheduling_decision d')",
        "class View:\n    def rows(self) -> object:\n        return Operation.objects.all()",
    ],
)
def test_an_unlimited_read_is_found(source: str) -> None:
    assert len(list(unlimited_reads("new", source))) == 1


@pytest.mark.parametrize(
    "source",
    [
        "def f(visible: QuerySet[Job]) -> object:\n    return Decision.objects.filter(j=visible)",
        "def f(principal: Principal) -> object:\n    return Operation.objects.all()",
        "def f() -> object:\n    return Server.objects.all()",
        "def f() -> object:\n    return rows('SELECT 1 FROM inventory_server')",
    ],
)
def test_limited_and_shared_reads_pass(source: str) -> None:
    assert list(unlimited_reads("new", source)) == []
