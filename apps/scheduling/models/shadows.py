"""Shadow mode: the decisions of a second policy on the same jobs."""

from typing import Final

from django.db import models
from django.db.models import Q

from apps.accounts.models import User
from apps.common.core.ids import uuid7

MAX_ERROR: Final = 500  # characters


class ShadowEnd(models.TextChoices):
    """Why a shadow ended."""

    STOPPED = "stopped", "an operator stopped it"
    TIME = "time", "its end time was reached"
    FULL = "full", "it has compared the largest number of decisions"
    FAILED = "failed", "its policy failed"
    POLICY = "policy", "its policy is not installed any more, or has other parameters"


class Shadow(models.Model):
    """A policy that decides on a sample of the live decisions, without committing.

    The counters are those of all decisions up to the cursor. ``decided`` = compared + ``neither``.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    policy = models.CharField(max_length=63)
    parameters = models.JSONField(default=dict, help_text="that are not the defaults")
    share = models.FloatField(help_text="of the decisions, in (0, 1]")
    code_version = models.CharField(max_length=31)
    started_at = models.DateTimeField()
    started_by = models.ForeignKey(
        User, on_delete=models.SET_NULL, null=True, related_name="+", db_index=False
    )
    until = models.DateTimeField(null=True, help_text="requested end; null: until it is stopped")
    ended_at = models.DateTimeField(null=True)
    end = models.CharField(max_length=8, choices=ShadowEnd.choices, blank=True)
    error = models.CharField(
        max_length=MAX_ERROR, blank=True, default="", db_default="", help_text="of its policy"
    )
    cursor_at = models.DateTimeField(help_text="of the last decision read")
    cursor_id = models.UUIDField(help_text="of the last decision read")
    seen = models.PositiveBigIntegerField(default=0, help_text="decisions by policies")
    decided = models.PositiveBigIntegerField(default=0, help_text="by both policies")
    neither = models.PositiveBigIntegerField(default=0, help_text="refused by both policies")
    dropped = models.PositiveBigIntegerField(default=0, help_text="sampled, but no time was left")
    unavailable = models.PositiveBigIntegerField(
        default=0, help_text="sampled, but the live decision could not be repeated"
    )
    busy_s = models.FloatField(default=0.0, help_text="CPU time")

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=Q(share__gt=0.0, share__lte=1.0), name="shadow_share_within_one"
            ),
            models.CheckConstraint(
                condition=Q(ended_at__isnull=True, end="") | Q(ended_at__isnull=False),
                name="shadow_end_with_time",
            ),
        )
        indexes = (
            # shadows that run; few rows
            models.Index(
                fields=["started_at"], name="shadow_running", condition=Q(ended_at__isnull=True)
            ),
            # retention
            models.Index(fields=["ended_at"], name="shadow_by_end"),
        )

    def __str__(self) -> str:
        return f"{self.policy} in the shadow"


class ShadowDecision(models.Model):
    """A live decision compared with that of a shadow; at least one of both placed the job.

    No foreign key to the decision, which may be deleted first.
    """

    # shadow_decision_once begins with it
    shadow = models.ForeignKey(
        Shadow, on_delete=models.CASCADE, related_name="decisions", db_index=False
    )
    decision_id = models.UUIDField()
    batch_id = models.UUIDField(help_text="of the decision")
    at = models.DateTimeField(help_text="of the decision")
    policy = models.CharField(max_length=63, help_text="that decided")
    kind = models.CharField(max_length=12, help_text="`core.shadow.JobKind`")
    platform = models.CharField(max_length=200, help_text="of the live choice; empty: refused")
    live_placed = models.BooleanField()
    shadow_placed = models.BooleanField()
    same_units = models.BooleanField()
    same_servers = models.BooleanField()
    same_platforms = models.BooleanField()
    job_regret = models.FloatField(null=True, help_text="null unless both placed the job")
    neighbour_regret = models.FloatField(null=True, help_text="null unless both placed the job")
    difference = models.FloatField(help_text="size of the regret, or `core.shadow.REFUSAL`")
    live = models.JSONField(help_text="`core.shadow.Choice`")
    shadowed = models.JSONField(help_text="`core.shadow.Choice` of the shadow")

    class Meta:
        constraints = (
            # a message that is delivered twice compares nothing twice
            models.UniqueConstraint(fields=["shadow", "decision_id"], name="shadow_decision_once"),
        )
        indexes = (
            # the most different decisions of a shadow
            models.Index(
                fields=["shadow", "-difference", "-id"], name="shadow_decision_by_difference"
            ),
        )

    def __str__(self) -> str:
        return f"{self.decision_id} in {self.shadow_id}"
