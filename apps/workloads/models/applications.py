"""The programs that jobs run."""

from django.db import models

from apps.common.core.ids import uuid7


class ApplicationKind(models.TextChoices):
    """Kind of an application: its performance measure (Paragon §2.2 P4, Quasar §3.1 Q1)."""

    ANALYTICS = "analytics", "distributed analytics: completion time"
    LATENCY_CRITICAL = "latency_critical", "service: queries per second within a latency bound"
    SINGLE_NODE = "single_node", "single node: instructions per second"
    BATCH = "batch", "batch: completion time on one server"


class Application(models.Model):
    """A program that jobs run; all jobs of one application share its profile."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.CharField(max_length=127, unique=True)
    kind = models.CharField(max_length=20, choices=ApplicationKind.choices)
    description = models.CharField(max_length=500, blank=True)
    labels = models.JSONField(default=dict, blank=True)
    runs_commands = models.BooleanField(
        default=False, db_default=False, help_text="its jobs have a command"
    )
    generation = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return self.name
