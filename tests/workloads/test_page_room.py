"""Room for new versions on the pages of jobs."""

from uuid import UUID

import pytest

from apps.common.infrastructure.database import fetch_rows
from apps.workloads import services as workloads
from tests import factories
from tests.scheduling.shapes import ONE_UNIT, flood


@pytest.fixture(autouse=True)
def clock(db: None) -> None:
    factories.cluster(seen_cluster_s=3000.0)


def pages() -> dict[UUID, int]:
    rows = fetch_rows("SELECT id, (ctid::text::point)[0]::int FROM workloads_job")
    return dict(rows)


def test_a_claim_leaves_jobs_on_their_pages() -> None:
    flood(factories.application(), 100, **ONE_UNIT)
    before = pages()
    assert len(set(before.values())) > 5  # the claim is not all on one page
    assert len(workloads.claim_waiting(agent="agent-1", limit=100)) == 100
    assert pages() == before
