"""Units that jobs have, and those that are kept for them."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from apps.scheduling.models.decisions import Decision
from apps.workloads.models import Job


class Allocation(models.Model):
    """Units of one server held by one job, from commit to release.

    ``acquired_seq`` and ``released_seq`` are change-log numbers, a total order that lets checks
    verify that no unit was held twice.

    The target allocation of a migration names the source allocation in ``moved_from``. Until the
    migration is done (``moved_s``) it is a reservation: its units are held, while the job runs on
    the source.
    """

    id = models.BigIntegerField(primary_key=True)
    # allocation_of_job is its index
    job = models.ForeignKey(
        Job, on_delete=models.CASCADE, related_name="allocations", db_index=False
    )
    decision = models.ForeignKey(Decision, on_delete=models.CASCADE, related_name="allocations")
    server_id = models.BigIntegerField()
    unit_ids = ArrayField(models.BigIntegerField())
    cores = models.PositiveIntegerField()
    memory_bytes = models.BigIntegerField(default=0)
    network_bps = models.BigIntegerField(default=0)
    storage_bytes = models.BigIntegerField(default=0)
    caused = ArrayField(models.FloatField())
    tolerated = ArrayField(
        models.FloatField(), default=list, help_text="by source, 0-100; empty: unknown"
    )
    acquired_seq = models.BigIntegerField()
    released_seq = models.BigIntegerField(null=True)
    acquired_at = models.DateTimeField()
    released_at = models.DateTimeField(null=True)
    acquired_s = models.FloatField()
    released_s = models.FloatField(null=True)
    moved_from = models.BigIntegerField(null=True, help_text="the allocation it takes over from")
    moved_s = models.FloatField(null=True, help_text="cluster seconds; null: it never took over")
    core_choice = models.JSONField(
        null=True, help_text="`core.chips.CoreChoice`; null: its server has one L3 group"
    )

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=Q(moved_s__isnull=True) | Q(moved_from__isnull=False),
                name="allocation_moved_from_another",
            ),
            models.CheckConstraint(
                condition=Q(released_seq__isnull=True)
                | Q(released_seq__gt=models.F("acquired_seq")),
                name="allocation_released_after_acquired",
            ),
        )
        indexes = (
            # allocations of a job; with `released_seq`, as reads of the live ones of many jobs
            # would otherwise combine it with the index of all live allocations
            models.Index(fields=["job", "released_seq"], name="allocation_of_job"),
            # live allocations of a server
            models.Index(
                fields=["server_id"],
                name="allocation_live_by_server",
                condition=Q(released_seq__isnull=True),
            ),
            # history of a server
            models.Index(fields=["server_id", "-acquired_seq"], name="allocation_by_server"),
            # the allocation that replaced another one
            models.Index(
                fields=["moved_from"],
                name="allocation_by_moved_from",
                condition=Q(moved_from__isnull=False),
            ),
        )

    def __str__(self) -> str:
        return f"{self.id} of {self.job_id}"


class Reservation(models.Model):
    """Units kept for a gang that has waited long, until it is placed.

    Another job may use them if it ends before ``start_s``. Rows of jobs that no longer wait have
    no effect. Times are in cluster seconds.
    """

    job_id = models.UUIDField(unique=True)
    unit_ids = ArrayField(models.BigIntegerField())
    made_s = models.FloatField()
    promised_s = models.FloatField(help_text="the first `start_s`")
    start_s = models.FloatField(help_text="when the last unit is free, at the pessimistic end")
    for_preemption = models.BooleanField(
        db_default=False, default=False, help_text="not late while victims hold some of its units"
    )

    def __str__(self) -> str:
        return f"{len(self.unit_ids)} units for {self.job_id}"
