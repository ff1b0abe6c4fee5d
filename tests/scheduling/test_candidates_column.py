"""The column of candidates: its migration, what it reads and writes, and the size of its row."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from apps.common.infrastructure.database import fetch_rows
from apps.inventory.models import Server
from apps.scheduling.core.registry import make
from apps.scheduling.core.types import Placed
from apps.scheduling.models import Decision
from apps.scheduling.services import commit
from apps.workloads.models import Job
from tests import factories
from tests.scheduling.world import ME, build, claimed, proposal

JSON, PACKED = ("scheduling", "0016_l3_groups"), ("scheduling", "0021_age_of_copies")
OLD = [{"server": "srv-1", "verdict": "chosen"}]  # of an earlier release


def migrate(target: tuple[str, str]) -> Any:
    """Migrate the database, and return its model of decisions."""
    executor = MigrationExecutor(connection)
    executor.migrate([target])
    return MigrationExecutor(connection).loader.project_state([target]).apps.get_model(
        "scheduling", "Decision"
    )  # fmt: skip


@pytest.mark.django_db(transaction=True)
def test_stored_candidates_are_migrated_in_both_directions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("apps.scheduling.migrations.0018_pack_candidates.BATCH", 2)
    job, machine = factories.job(), factories.server()
    stored = [
        [],
        [factories.candidate(machine, verdict="chosen"), factories.candidate(machine, core=1)],
        OLD,
        [factories.candidate(machine, quality=0.123456, target=None)],
        [],
    ]
    ids = [factories.decision(job, candidates=rows).pk for rows in stored]
    try:
        before = migrate(JSON).objects.in_bulk(ids)
        assert [before[key].candidates for key in ids] == stored
    finally:
        after = migrate(PACKED).objects.in_bulk(ids)
        executor = MigrationExecutor(connection)
        executor.migrate(executor.loader.graph.leaf_nodes("scheduling"))
    assert [after[key].candidates for key in ids] == stored
    assert [Decision.objects.get(pk=key).candidates for key in ids] == stored


@pytest.mark.django_db
def test_queries_read_and_write_rows() -> None:
    decision = factories.decision(factories.job(), candidates=OLD)
    machine = factories.server()
    packed = [factories.candidate(machine)]
    assert Decision.objects.get().candidates == OLD
    Decision.objects.update(candidates=packed)
    assert list(Decision.objects.values_list("candidates", flat=True)) == [packed]
    decision.refresh_from_db()
    decision.candidates = []
    decision.save()
    assert fetch_rows("SELECT octet_length(candidates) FROM scheduling_decision") == [(0,)]
    assert Decision.objects.get().candidates == []


@pytest.mark.django_db
@pytest.mark.parametrize(("name", "limit"), [("expected", 850), ("tarcil", 800)])
def test_a_decision_on_one_unit_takes_less_than_a_kilobyte(name: str, limit: int) -> None:
    factories.cluster()
    copy = build(*"abcd", cores=8)
    proposed = proposal(claimed(), copy.topology, [0])
    request = proposed.sized_job.request
    (outcome,) = make(name).place(copy.snapshot(), [request], np.random.default_rng(1))
    assert isinstance(outcome, Placed)
    commit([replace(proposed, placed=outcome)], agent=ME)
    decision = Decision.objects.get()
    servers = set(Server.objects.values_list("id", flat=True))
    assert len(decision.candidates) == 8
    assert {row["server_id"] for row in decision.candidates} <= servers
    ((size,),) = fetch_rows("SELECT pg_column_size(d.*) FROM scheduling_decision d")
    assert size <= limit
    assert Job.objects.get().state == "starting"
