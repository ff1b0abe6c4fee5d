"""What to say about a job that is not there."""

from datetime import UTC, datetime, timedelta
from uuid import UUID


def missing_job_text(job_id: UUID, *, now: datetime, kept_days: float) -> str:
    """Return that there is no such job, and whether it may have been deleted for its age.

    Parameters
    ----------
    kept_days : days from the end of a job to its deletion; 0 = it is never deleted
    """
    text = f"There is no job {job_id}."
    if job_id.version != 7 or not kept_days:
        return text
    issued = datetime.fromtimestamp((job_id.int >> 80) / 1e3, UTC)
    if issued > now - timedelta(days=kept_days):
        return text
    return (
        f"{text} Its id was issued on {issued:%Y-%m-%d}, and jobs are deleted"
        f" {kept_days:g} days after their end."
    )
