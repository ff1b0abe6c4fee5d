"""Jobs that were submitted together, and the archives of files that commands get."""

from django.conf import settings
from django.db import models

from apps.accounts.models import Project
from apps.common.core.ids import uuid7
from apps.common.core.preconditions import generation_of
from apps.common.infrastructure.database import DatabaseClock


class BatchMode(models.TextChoices):
    """How the jobs of a request belong together."""

    INDEPENDENT = "independent", "each is accepted or rejected for itself"
    ATOMIC = "atomic", "all are accepted, or none"
    ARRAY = "array", "members of a job array: one specification, an index each"


class Batch(models.Model):
    """Jobs submitted in one request; ``items`` stores the outcome of each item, in order.

    A job array is a batch of mode ``array``; its members have an index (`Job.array_index`).
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="batches")
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT)
    created_at = models.DateTimeField(auto_now_add=True)
    mode = models.CharField(max_length=12, default="independent")
    total = models.PositiveIntegerField()
    accepted = models.PositiveIntegerField()
    items = models.JSONField(default=list)
    name = models.CharField(
        max_length=127, blank=True, default="", db_default="", help_text="of an array"
    )
    array_indexes = models.CharField(
        max_length=500, blank=True, default="", db_default="", help_text="as submitted: 0-99:2"
    )
    array_limit = models.PositiveIntegerField(
        null=True, help_text="members of an array that may wait or run at once; null: all"
    )

    class Meta:
        indexes = (
            # lists, newest first; retention
            models.Index(fields=["-created_at", "-id"], name="batch_by_age"),
            models.Index(fields=["project", "-created_at", "-id"], name="batch_by_project"),
            models.Index(fields=["mode", "-created_at", "-id"], name="batch_by_mode"),
        )

    def __str__(self) -> str:
        return str(self.id)

    @property
    def generation(self) -> int:
        """Digest of the only editable field, which If-Match names."""
        return generation_of({"limit": self.array_limit})


class Archive(models.Model):
    """An archive of files that commands get; equal ones are stored once.

    It is deleted with the last job that has it.
    """

    digest = models.CharField(max_length=71, primary_key=True, help_text="sha256:...")
    data = models.BinaryField()
    used_at = models.DateTimeField(
        db_default=DatabaseClock(), help_text="wall time; of the last submission that named it"
    )

    def __str__(self) -> str:
        return self.digest
