"""What is said about a job that is not there."""

from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest

from apps.common.core.ids import uuid7
from apps.workloads.core.deleted import missing_job_text

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def issued(year: int, month: int, day: int) -> UUID:
    return uuid7(at_ms=int(datetime(year, month, day, tzinfo=UTC).timestamp() * 1e3))


def test_the_id_of_an_old_job_names_its_day_and_the_limit() -> None:
    key = issued(2026, 1, 2)
    assert missing_job_text(key, now=NOW, kept_days=90) == (
        f"There is no job {key}. Its id was issued on 2026-01-02, and jobs are deleted"
        " 90 days after their end."
    )


@pytest.mark.parametrize(
    ("key", "kept_days"), [(issued(2026, 5, 2), 90), (issued(2026, 1, 2), 0), (uuid4(), 90)]
)
def test_an_id_that_was_never_deleted_for_its_age_is_only_missing(
    key: UUID, kept_days: float
) -> None:
    assert missing_job_text(key, now=NOW, kept_days=kept_days) == f"There is no job {key}."
