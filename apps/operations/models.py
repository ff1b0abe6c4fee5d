"""Events, idempotency keys and long-running operations."""

from django.conf import settings
from django.db import models

from apps.common.core.ids import uuid7
from apps.operations.core.states import OperationStatus, Topic


class Event(models.Model):
    """Something that happened, in the one order every reader sees.

    ``seq`` is allotted while an advisory lock is held until commit (`services.record_events`), so
    numbers become visible in ascending order and a reader of ``seq > last`` loses nothing. Numbers
    may have gaps.
    """

    seq = models.BigAutoField(primary_key=True)
    at = models.DateTimeField()
    topic = models.CharField(max_length=16, choices=[(t.value, t.value) for t in Topic])
    kind = models.CharField(max_length=48)  # e.g. "job.updated"
    subject = models.CharField(max_length=64)  # id of the object it is about
    project_id = models.UUIDField(null=True)  # null: every signed-in user may see it
    request_id = models.CharField(max_length=64, blank=True)
    data = models.JSONField(default=dict)

    class Meta:
        indexes = (
            models.Index(fields=["subject", "seq"]),  # events of one job
            models.Index(fields=["at"]),  # pruning by age
        )

    def __str__(self) -> str:
        return f"{self.seq} {self.kind} {self.subject}"


class IdempotencyKey(models.Model):
    """The answer once given to a keyed request; inserted in the transaction of what it created."""

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
    """Long work that a request started and that somebody may watch or cancel."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    kind = models.CharField(max_length=48)  # e.g. "batch.submit", "server.drain"
    status = models.CharField(
        max_length=16,
        choices=[(s.value, s.value) for s in OperationStatus],
        default=OperationStatus.PENDING.value,
    )
    progress = models.PositiveIntegerField(default=0)
    total = models.PositiveIntegerField(null=True)  # null: not known
    message = models.TextField(blank=True)
    arguments = models.JSONField(default=dict)
    result = models.JSONField(null=True)
    problem = models.JSONField(null=True)  # RFC 9457 body of a failure
    cancel_requested = models.BooleanField(default=False)
    lease_until = models.DateTimeField(null=True)  # wall time; null: nobody works on it
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
