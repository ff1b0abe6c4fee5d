"""The planner knows which values the jobs of a project have.

Otherwise the list of a member, filtered by a value that the project lacks, reads all its jobs.
"""

import json

import pytest
from django.db import connection

from apps.accounts.models import Project
from apps.workloads.core.spec import parse_job
from apps.workloads.models import Job
from apps.workloads.services import submit_jobs
from tests import factories

pytestmark = pytest.mark.django_db
JOBS = 1_000  # of each project
VALUES = {
    "target_kind": ("best_effort", "ips"),
    "state": ("submitted", "profiling"),
    "reason_code": ("NotEvaluated", "CapacityShort"),
    "priority": (0, 1),
}


@pytest.fixture
def projects(db: None) -> list[Project]:
    """Two projects whose jobs have different values in every field."""
    factories.cluster()
    user = factories.user("ada")
    targets = [{"kind": "best_effort"}, {"kind": "ips", "ips": 1e9}]
    found = []
    for place, target in enumerate(targets):
        project = factories.project(f"p{place}")
        spec = parse_job({"application": f"app-{place}", "target": target})
        submit_jobs([spec] * JOBS, project=project, user=user, correlation_id="r")
        values = {field: pair[place] for field, pair in VALUES.items() if field != "target_kind"}
        Job.objects.filter(project=project).update(**values)
        found.append(project)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE workloads_job")
    return found


def expected_rows(project: Project, field: str, value: object) -> int:
    """Return the number of jobs that the planner expects."""
    rows = Job.objects.order_by().filter(project=project, **{field: value})
    (answer,) = json.loads(rows.explain(format="json"))
    return int(answer["Plan"]["Plan Rows"])


@pytest.mark.parametrize("field", sorted(VALUES))
def test_a_value_that_a_project_lacks_is_expected_to_be_rare(
    projects: list[Project], field: str
) -> None:
    for place, project in enumerate(projects):
        assert expected_rows(project, field, VALUES[field][place]) > 0.9 * JOBS
        assert expected_rows(project, field, VALUES[field][1 - place]) < 0.05 * JOBS
