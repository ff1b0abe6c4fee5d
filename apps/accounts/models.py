"""Users, projects, tokens, browser sessions, failed sign-ins and the audit log."""

from typing import Any

from django.contrib.auth.models import AbstractUser
from django.contrib.postgres.fields import ArrayField
from django.db import models

from apps.accounts.core.roles import Role
from apps.accounts.core.sign_in import Subject
from apps.accounts.infrastructure.actor import Via
from apps.common.core.ids import uuid7
from apps.common.core.preconditions import generation_of

ROLE_CHOICES = [(role.value, role.value) for role in Role]


class User(AbstractUser):
    """A person or a service account."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    role = models.CharField(max_length=16, choices=ROLE_CHOICES, default=Role.VIEWER.value)
    is_service = models.BooleanField(default=False)
    # True: the password is a one-time password; a session can only replace it.
    must_change_password = models.BooleanField(default=False)

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=models.Q(role__in=[role.value for role in Role]),
                name="accounts_user_role_known",
            ),
        )

    def __str__(self) -> str:
        return self.username

    def editable_fields(self) -> dict[str, Any]:
        """Return what edits change, as JSON."""
        return {"role": str(self.role), "is_active": self.is_active}

    @property
    def generation(self) -> int:
        """Digest of the editable fields, which If-Match names."""
        return generation_of(self.editable_fields())


class Project(models.Model):
    """A group of users and their jobs."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.SlugField(max_length=63, unique=True)
    description = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    # False: service accounts must submit jobs with an Idempotency-Key.
    key_optional = models.BooleanField(default=True)
    labels = models.JSONField(default=dict, blank=True)
    archived_at = models.DateTimeField(null=True, blank=True)  # set: accepts no jobs
    # The quota, in units; null: none.
    guaranteed_units = models.PositiveIntegerField(null=True, blank=True)
    max_units = models.PositiveIntegerField(null=True, blank=True)

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=models.Q(max_units__isnull=True)
                | models.Q(guaranteed_units__isnull=True)
                | models.Q(max_units__gte=models.F("guaranteed_units")),
                name="project_guarantee_within_max",
            ),
        )

    def __str__(self) -> str:
        return self.name

    def editable_fields(self) -> dict[str, Any]:
        """Return what edits change, as JSON."""
        return {
            "name": self.name,
            "description": self.description,
            "labels": self.labels,
            "key_optional": self.key_optional,
            "is_archived": self.archived_at is not None,
            "guaranteed_units": self.guaranteed_units,
            "max_units": self.max_units,
        }

    @property
    def generation(self) -> int:
        """Digest of the editable fields, which If-Match names."""
        return generation_of(self.editable_fields())


class ProjectShare(models.Model):
    """Decayed dominant share of a project at one moment (`scheduling.core.sharing.fair_share`).

    ``settled`` are the mean amounts of the allocations that ended up to ``sequence``; ``shares``
    also count the others. Both are by resource: units, memory, network, storage.
    """

    project = models.OneToOneField(
        Project, on_delete=models.CASCADE, primary_key=True, related_name="share"
    )
    half_life_s = models.FloatField(help_text="cluster seconds")
    cluster_s = models.FloatField(help_text="the moment")
    sequence = models.BigIntegerField(help_text="of the change log")
    settled = ArrayField(models.FloatField())
    shares = ArrayField(models.FloatField())
    dominant = models.FloatField(help_text="the largest share, 0-1")
    resource = models.CharField(max_length=12, help_text="of the largest share")
    position = models.PositiveIntegerField(help_text="from 1: the smallest dominant share")

    def __str__(self) -> str:
        return f"{self.project_id} {self.dominant:.3f}"


class Membership(models.Model):
    """A user's role in one project; the stronger of it and the user's own role applies."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=16, choices=ROLE_CHOICES, default=Role.SUBMITTER.value)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["user", "project"], name="accounts_membership_once"),
            models.CheckConstraint(
                condition=models.Q(role__in=[role.value for role in Role]),
                name="accounts_membership_role_known",
            ),
        )

    def __str__(self) -> str:
        return f"{self.user_id} in {self.project_id} as {self.role}"


class Token(models.Model):
    """A bearer token of a user; the secret is shown once and stored as a SHA-256 digest.

    A fast digest is safe because the secret has 256 random bits.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=16)
    digest = models.BinaryField(max_length=32, unique=True)
    role = models.CharField(max_length=16, choices=ROLE_CHOICES, null=True, blank=True)  # noqa: DJ001 - null: the user's own
    # The limited token that created it; revoked with it.
    parent = models.ForeignKey(
        "self", on_delete=models.CASCADE, null=True, blank=True, related_name="derived"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = (models.Index(fields=["user", "-created_at"]),)  # a user's list of tokens
        constraints = (
            models.CheckConstraint(
                condition=models.Q(role__isnull=True)
                | models.Q(role__in=[role.value for role in Role]),
                name="accounts_token_role_known",
            ),
        )

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"


class BrowserSession(models.Model):
    """A session of a signed-in browser; its data is the row of ``django_session``."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="sessions")
    session_key = models.CharField(max_length=40, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)
    address = models.CharField(max_length=45, blank=True)
    user_agent = models.CharField(max_length=200, blank=True)

    def __str__(self) -> str:
        return f"{self.user_id} since {self.created_at:%Y-%m-%d %H:%M}"


class SignInFailures(models.Model):
    """Failed sign-ins of one account or one address; deleted when a sign-in succeeds."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    subject = models.CharField(
        max_length=8, choices=[(subject.value, subject.value) for subject in Subject]
    )
    key = models.CharField(max_length=64)  # digest of the user name, or the address
    user = models.ForeignKey(User, on_delete=models.CASCADE, null=True, blank=True)
    failures = models.PositiveIntegerField(default=0)
    failed_at = models.DateTimeField()
    blocked_until = models.DateTimeField()

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["subject", "key"], name="accounts_failures_once"),
        )
        indexes = (
            models.Index(fields=["failed_at"]),  # the pruning
            models.Index(fields=["blocked_until"]),  # the list of blocked sign-ins
        )

    def __str__(self) -> str:
        return f"{self.failures} of {self.subject} {self.key}"


class AuditEntry(models.Model):
    """One administrative act; the database refuses to change or delete it.

    The ids have no foreign keys: an entry outlives what it names.
    """

    id = models.BigAutoField(primary_key=True)
    at = models.DateTimeField()
    action = models.CharField(max_length=64)
    via = models.CharField(max_length=8, choices=[(via.value, via.value) for via in Via])
    user_id = models.UUIDField(null=True, blank=True)
    username = models.CharField(max_length=150, blank=True)
    token_id = models.UUIDField(null=True, blank=True)
    token_name = models.CharField(max_length=100, blank=True)
    object_kind = models.CharField(max_length=32)
    object_id = models.CharField(max_length=64)
    object_name = models.CharField(max_length=253, blank=True)
    before = models.JSONField(null=True, blank=True)
    after = models.JSONField(null=True, blank=True)
    message = models.TextField(blank=True)
    request_id = models.CharField(max_length=64, blank=True)
    address = models.CharField(max_length=45, blank=True)

    class Meta:
        indexes = (  # the filters of the list, each newest first
            models.Index(fields=["at", "id"]),
            models.Index(fields=["action", "at", "id"]),
            models.Index(fields=["username", "at", "id"]),
            models.Index(fields=["object_kind", "at", "id"]),
            models.Index(fields=["object_id", "at", "id"]),
            models.Index(fields=["object_name", "at", "id"]),
            models.Index(fields=["request_id", "at", "id"]),
        )

    def __str__(self) -> str:
        return f"{self.id}: {self.action} {self.object_name or self.object_id}"
