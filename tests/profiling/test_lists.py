"""Lists of profiling runs read as many rows as they show."""

import pytest
from django.db import connection

from apps.profiling.models import ProfilingRun, RunState
from apps.profiling.selectors import runs
from tests import factories

pytestmark = pytest.mark.django_db
RUNS = 5_000


@pytest.fixture
def many_runs(db: None) -> None:
    about = factories.application()
    ProfilingRun.objects.bulk_create(
        ProfilingRun(
            application=about,
            plan={},
            seed=seed,
            requested_s=0.0,
            state=RunState.FAILED if seed == 0 else RunState.DONE,
        )
        for seed in range(RUNS)
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE profiling_profilingrun")


@pytest.mark.parametrize(
    ("where", "index"),
    [({}, "profiling_run_by_age"), ({"state": RunState.FAILED}, "profiling_run_by_state")],
)
def test_a_list_reads_an_index(many_runs: None, where: dict[str, str], index: str) -> None:
    page = runs().filter(**where).order_by("-created_at", "-id")[:51]
    assert f"using {index} on profiling_profilingrun" in page.explain()
