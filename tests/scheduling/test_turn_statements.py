"""How many statements a turn of an agent takes."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.scheduling.services.agent import SchedulingAgent
from tests import factories
from tests.scheduling.world import agent, build, known, waiting

pytestmark = pytest.mark.django_db


def statements(worker: SchedulingAgent, jobs: int) -> list[str]:
    """Return the statements of a turn that places a number of jobs."""
    application = known()
    for _ in range(jobs):
        waiting(application, units_requested=1)
    with CaptureQueriesContext(connection) as captured:
        assert worker.take_turn() == jobs
    return [query["sql"] for query in captured.captured_queries]


def test_the_statements_of_a_turn_do_not_depend_on_its_jobs() -> None:
    factories.cluster(seen_cluster_s=3000.0)
    build(*"abcdefgh")
    worker = agent("agent-1")
    statements(worker, 1)
    few, many = statements(worker, 2), statements(worker, 20)
    assert len(few) == len(many)


def test_a_turn_without_work_takes_one_statement() -> None:
    factories.cluster(seen_cluster_s=3000.0)
    build(*"ab")
    worker = agent("agent-1")
    statements(worker, 1)
    assert len(statements(worker, 0)) == 1


def test_a_turn_reads_the_change_log_once() -> None:
    factories.cluster(seen_cluster_s=3000.0)
    build(*"ab")
    worker = agent("agent-1")
    statements(worker, 1)
    reads = [sql for sql in statements(worker, 1) if "FROM inventory_change WHERE seq >" in sql]
    assert len(reads) == 1
