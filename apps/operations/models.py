"""Events, idempotency keys and long-running operations."""

from django.conf import settings
from django.contrib.postgres.indexes import HashIndex
from django.db import models
from django.db.models import Q

from apps.common.core.ids import uuid7
from apps.operations.core.states import OperationStatus, Topic


class Event(models.Model):
    """An entry of the event log.

    Numbers have gaps, and a higher one may be visible before a lower one: a reader of
    ``seq > last`` stops at `selectors.complete_seq`.
    """

    seq = models.BigAutoField(primary_key=True)
    at = models.DateTimeField()
    topic = models.CharField(max_length=16, choices=[(t.value, t.value) for t in Topic])
    kind = models.CharField(max_length=48)  # e.g. "job.updated"
    subject = models.CharField(max_length=64)  # id of the object
    # null: every signed-in user may see it, unless it is of an operation
    project_id = models.UUIDField(null=True)
    user_id = models.UUIDField(null=True)  # who started the operation, and may see its events
    request_id = models.CharField(max_length=64, blank=True)
    data = models.JSONField(default=dict)

    class Meta:
        indexes = (
            models.Index(fields=["subject", "seq"]),  # events of one job
            models.Index(fields=["at"]),  # pruning by age
            # lists by a value that few events may have
            models.Index(fields=["topic", "seq"], name="event_by_topic"),
            models.Index(fields=["kind", "seq"], name="event_by_kind"),
            # without events that no request caused: most, and a hash index walks through all
            # entries of one value to add another
            HashIndex(fields=["request_id"], name="event_by_request", condition=~Q(request_id="")),
        )

    def __str__(self) -> str:
        return f"{self.seq} {self.kind} {self.subject}"


class IdempotencyKey(models.Model):
    """The response to a request with a key, inserted in the transaction that ran the request."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    principal = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_index=False
    )
    route = models.CharField(max_length=100)
    key = models.CharField(max_length=200)
    body_digest = models.BinaryField(max_length=32)  # SHA-256 of the canonical body
    status = models.PositiveSmallIntegerField()
    location = models.CharField(max_length=200, blank=True)
    response = models.JSONField()
    created_at = models.DateTimeField()

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["principal", "route", "key"], name="operations_idempotency_once"
            ),
        )
        indexes = (models.Index(fields=["created_at"]),)  # pruning after 24 h

    def __str__(self) -> str:
        return f"{self.route} {self.key}"


class Operation(models.Model):
    """Long-running work that a request started; it reports progress and can be cancelled."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    kind = models.CharField(max_length=48)  # e.g. "batch.submit", "server.drain"
    status = models.CharField(
        max_length=16,
        choices=[(s.value, s.value) for s in OperationStatus],
        default=OperationStatus.PENDING.value,
    )
    progress = models.PositiveIntegerField(default=0)
    total = models.PositiveIntegerField(null=True)  # null: unknown
    message = models.TextField(blank=True)
    arguments = models.JSONField(default=dict)
    result = models.JSONField(null=True)
    problem = models.JSONField(null=True)  # RFC 9457 body of a failure
    cancel_requested = models.BooleanField(default=False)
    lease_until = models.DateTimeField(null=True)  # wall time; null: unclaimed
    generation = models.PositiveIntegerField(default=1)
    request_id = models.CharField(max_length=64, blank=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    project_id = models.UUIDField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        indexes = (
            models.Index(fields=["-created_at", "-id"]),  # the list, newest first
            models.Index(fields=["kind", "-created_at", "-id"], name="operation_by_kind"),
            models.Index(fields=["status", "-created_at", "-id"], name="operation_by_status"),
            models.Index(  # the sweep of expired leases
                fields=["lease_until"],
                name="operations_leased",
                condition=models.Q(status="running"),
            ),
        )
        constraints = (
            models.CheckConstraint(
                condition=models.Q(status__in=[s.value for s in OperationStatus]),
                name="operations_operation_status_known",
            ),
        )

    def __str__(self) -> str:
        return f"{self.kind} {self.status}"


class SystemSample(models.Model):
    """The state of queues, agents and event streams at one moment; sampled every ten seconds."""

    at = models.DateTimeField(unique=True)  # retention and charts, by time
    seconds = models.FloatField(help_text="wall time since the sample before, which agents covers")
    queues = models.JSONField(help_text="waiting tasks by queue; empty: the broker is away")
    agents = models.JSONField(
        help_text="by agent: decisions, lost commits, and p50_s and p99_s of the decision time"
    )
    streams = models.PositiveIntegerField(
        null=True, help_text="open streams; null: the broker is away"
    )

    def __str__(self) -> str:
        return f"system at {self.at:%H:%M:%S}"


class Retention(models.Model):
    """How the deletion of one kind of history goes; `services.retention` runs it."""

    name = models.CharField(max_length=32, primary_key=True)
    is_paused = models.BooleanField(default=False)
    deleted = models.BigIntegerField(default=0)  # rows, since the installation
    last_deleted = models.BigIntegerField(default=0)
    last_seconds = models.FloatField(default=0.0)
    last_run_at = models.DateTimeField(null=True)
    is_complete = models.BooleanField(default=True)  # the last run left nothing to delete
    position = models.FloatField(default=0.0)  # cluster seconds up to which samples are averaged

    def __str__(self) -> str:
        return self.name
