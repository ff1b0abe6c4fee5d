"""The number of jobs in each state."""

from django.db import models


class JobCount(models.Model):
    """Number of jobs of one project and application in one state, up to the last fold.

    Triggers on the table of jobs append to `JobCountChange` in the transaction that changes a
    job; a task folds the changes into these rows. Their sum is exact in every snapshot
    (`selectors.job_counts`), and no two writers of jobs update one row.
    """

    project_id = models.UUIDField()
    application_id = models.UUIDField()
    target_kind = models.CharField(max_length=20)
    state = models.CharField(max_length=10)
    jobs = models.BigIntegerField()

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["application_id", "project_id", "target_kind", "state"],
                name="job_count_once",
            ),
        )

    def __str__(self) -> str:
        return f"{self.jobs} {self.state}"


class JobCountChange(models.Model):
    """A change of a number of jobs that is not yet folded into `JobCount`."""

    project_id = models.UUIDField()
    application_id = models.UUIDField()
    target_kind = models.CharField(max_length=20)
    state = models.CharField(max_length=10)
    change = models.BigIntegerField()

    class Meta:
        # the list of applications
        indexes = (models.Index(fields=["application_id"], name="job_count_change_by_app"),)

    def __str__(self) -> str:
        return f"{self.change:+d} {self.state}"
