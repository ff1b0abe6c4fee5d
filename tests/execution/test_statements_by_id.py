"""Statements that find rows by id read no index of a state, whatever statistics the planner has.

Jobs stay in a state for seconds. An index by the state has the entries of all jobs that were in it
since the last vacuum, and by the statistics almost none.
"""

import json
from collections import defaultdict
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import pytest
from django.db import connection

from apps.common.infrastructure.database import fetch_rows
from apps.execution.backends.emulated.control_plane import DatabaseControlPlane, Hooks
from apps.execution.backends.emulated.port import JobReport
from apps.execution.core.port import EndReport
from apps.execution.models import Launch
from apps.execution.services.launch_reports import _END, _START
from apps.execution.services.launches import release_jobs, request_launches
from apps.inventory.models import Server
from apps.scheduling.models import Allocation
from apps.scheduling.services.commit import _LOCK
from apps.scheduling.services.release import _BY_JOB
from apps.workloads.core.attainment import Performance
from apps.workloads.models import Job
from tests import factories
from tests.execution.migration_world import holding
from tests.scheduling.shapes import flood
from tests.scheduling.world import agent, build, known

pytestmark = pytest.mark.django_db
HISTORY, JOBS = 5_000, 12
HALFWAY: Final = Performance(progress=0.5, progress_per_s=0.005)
TABLES: Final = ("workloads_job", "execution_launch", "scheduling_allocation")
BY_ID: Final = frozenset(
    {
        *("workloads_job_pkey", "execution_launch_pkey", "scheduling_allocation_pkey"),
        *("launch_attempt_once", "allocation_of_job"),
    }
)
# claims, the poll for waiting jobs, and a new copy of the cluster
BY_STATE: Final = ("SKIP LOCKED", "SELECT (SELECT", "SELECT unit_ids, caused")


def others(plan: Mapping[str, Any], indexes: Container[str]) -> Iterator[str]:
    """Yield how a plan reads rows of jobs other than by their ids."""
    index = plan.get("Index Name")
    if plan["Node Type"] == "Seq Scan" and plan["Relation Name"] in TABLES:
        yield f"all of {plan['Relation Name']}"
    elif index in indexes and not (index in BY_ID and "Index Cond" in plan):
        yield str(index)
    for part in plan.get("Plans", ()):
        yield from others(part, indexes)


@contextmanager
def explaining(found: dict[str, set[str]]) -> Iterator[None]:
    """Explain the statements of the block, but claims."""
    of_tables = fetch_rows(
        "SELECT indexname FROM pg_indexes WHERE tablename = ANY(%s)", [list(TABLES)]
    )
    indexes = {name for (name,) in of_tables}

    def explain(execute: Any, sql: str, parameters: Any, many: Any, context: Any) -> Any:
        if sql.lstrip().startswith(("SELECT", "WITH", "UPDATE")) and not any(
            text in sql for text in BY_STATE
        ):
            with connection.connection.cursor() as cursor:
                for way in ("seqscan", "sort", "incremental_sort"):  # a claim has turned them off
                    cursor.execute(f"SET LOCAL enable_{way} TO DEFAULT")
                cursor.execute(f"EXPLAIN (FORMAT JSON) {sql}", parameters)
                ((answer,),) = cursor.fetchall()
            plans = json.loads(answer) if isinstance(answer, str) else answer
            found[sql] |= set(others(plans[0]["Plan"], indexes))
        return execute(sql, parameters, many, context)

    with connection.execute_wrapper(explain):
        yield


def plane() -> DatabaseControlPlane:
    hooks = Hooks(
        request_launches=lambda backend, limit: request_launches(backend, limit=limit),
        release_jobs=release_jobs,
        record_measurements=lambda run, at_s, cells: None,
    )
    return holding(DatabaseControlPlane(worker="emulator-1", hooks=hooks))


def history() -> None:
    """Ended jobs, with statistics that know no others."""
    jobs = flood(known(), HISTORY)
    Job.objects.update(state="succeeded", finished_s=3600.0, finished_at=factories.MOMENT)
    launch = {"attempt": 1, "backend": "emulated", "state": "ended", "order": {}}
    Launch.objects.bulk_create(Launch(job=job, **launch) for job in jobs)
    server, decision = Server.objects.all()[0], factories.decision(jobs[0])
    times = {"acquired_seq": 1, "acquired_at": factories.MOMENT, "acquired_s": 3000.0}
    ended = {"released_seq": 2, "released_at": factories.MOMENT, "released_s": 3600.0}
    units = {"server_id": server.id, "unit_ids": [], "cores": 1, "caused": [], "memory_bytes": 0}
    Allocation.objects.bulk_create(
        Allocation(id=10**6 + i, job=job, decision=decision, **units, **times, **ended)
        for i, job in enumerate(jobs)
    )
    with connection.cursor() as cursor:
        for table in TABLES:
            cursor.execute(f"ANALYZE {table}")


def test_a_job_is_found_by_its_id_from_its_placement_to_its_end() -> None:
    factories.cluster(seen_cluster_s=3000.0)
    build(*(f"server-{i}" for i in range(40)))
    history()
    flood(known(), JOBS, units_requested=1)
    worker, backend = agent("agent-1"), plane()
    found: dict[str, set[str]] = defaultdict(set)
    with explaining(found):
        assert worker.take_turn() == JOBS
        launches = [order.launch for order in backend.claim_launches(JOBS)]
        assert len(launches) == JOBS
        backend.report_launches(dict.fromkeys(launches, 3010.0), ())
        backend.report_jobs(3020.0, [JobReport(x, HALFWAY, 0.7) for x in launches])
        backend.report_launches({}, [EndReport(x, 3030.0, "finished") for x in launches])
    assert Job.objects.filter(state="succeeded").count() == HISTORY + JOBS
    assert {_LOCK, _BY_JOB, _START, _END} <= found.keys()
    wrong = {sql: names for sql, names in found.items() if names}
    assert not wrong, "\n\n".join(f"{sorted(names)}\n{sql}" for sql, names in wrong.items())
