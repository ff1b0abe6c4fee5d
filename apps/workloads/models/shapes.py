"""Requests that could not be placed."""

from django.db import models
from django.db.models import Q

from apps.accounts.models import Project
from apps.workloads.core.reasons import Reason
from apps.workloads.core.shapes import WaitsFor


class WaitingShape(models.Model):
    """A request shape that could not be placed; it exists while jobs of that shape wait.

    Agents evaluate its oldest jobs only. ``waits_for`` to ``unit_storage_bytes`` say which freed
    capacity lets them evaluate it again (`core.shapes.Needs`); after ``due_at`` they do so anyway.
    """

    key = models.UUIDField(unique=True, help_text="`Job.shape_key` of its jobs")
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    priority = models.SmallIntegerField()
    reason_code = models.CharField(max_length=40)
    reason_message = models.CharField(max_length=500, blank=True)
    reason_also = models.JSONField(default=list)
    is_reason_copied = models.BooleanField(default=True, help_text="all its jobs show its reason")
    decision_id = models.UUIDField(null=True, help_text="the decision that gave the reason")
    evaluated_seq = models.BigIntegerField(help_text="change-log number of its last evaluation")
    queued_at = models.DateTimeField(
        help_text="its place among shapes of equal priority: when its job was submitted, or when"
        " it last let others go first"
    )
    due_at = models.DateTimeField()
    claimed_until = models.DateTimeField(null=True, help_text="an agent evaluates it until then")
    allowance = models.PositiveIntegerField(default=1, help_text="jobs to evaluate next")
    units = models.PositiveIntegerField(default=1, db_default=1, help_text="size of its jobs")
    run_s = models.FloatField(null=True, help_text="predicted run time of its jobs")
    run_high_s = models.FloatField(null=True, help_text="pessimistic end of its interval")
    waits_for_better = models.BooleanField(
        default=False,
        db_default=False,
        help_text="units are free, and its jobs take any of them when they may wait no longer",
    )

    waits_for = models.CharField(max_length=10, choices=[(w.value, w.value) for w in WaitsFor])
    min_units = models.PositiveIntegerField()
    on_one_server = models.BooleanField()
    platforms = models.JSONField(null=True)
    labels = models.JSONField()
    unit_memory_bytes = models.BigIntegerField()
    unit_network_bps = models.BigIntegerField()
    unit_storage_bytes = models.BigIntegerField()

    class Meta:
        indexes = (
            # agents: shapes that freed capacity may let start, most urgent first
            models.Index(fields=["project", "-priority", "queued_at"], name="shape_by_project"),
            # agents: shapes to evaluate again
            models.Index(fields=["due_at"], name="shape_by_due"),
            # agents: gangs for which their projects keep a part of the quota
            models.Index(
                fields=["project"],
                name="shape_of_gang_beyond_quota",
                condition=Q(reason_code=Reason.QUOTA_EXCEEDED.value, min_units__gt=1),
            ),
            # agents: shapes whose jobs show an older reason
            models.Index(
                fields=["id"], name="shape_reason_is_new", condition=Q(is_reason_copied=False)
            ),
        )

    def __str__(self) -> str:
        return str(self.key)
