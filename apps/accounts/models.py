"""People, projects and tokens."""

from django.contrib.auth.models import AbstractUser
from django.db import models

from apps.accounts.core.roles import Role
from apps.common.core.ids import uuid7

ROLE_CHOICES = [(role.value, role.value) for role in Role]


class User(AbstractUser):
    """A person or a service account that signs in."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    role = models.CharField(max_length=16, choices=ROLE_CHOICES, default=Role.VIEWER.value)
    is_service = models.BooleanField(default=False)

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=models.Q(role__in=[role.value for role in Role]),
                name="accounts_user_role_known",
            ),
        )

    def __str__(self) -> str:
        return self.username


class Project(models.Model):
    """A group of people and the jobs and applications they share."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.SlugField(max_length=63, unique=True)
    description = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    # False: a job is accepted from a service account only with an Idempotency-Key.
    key_optional = models.BooleanField(default=True)

    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    """A user's role inside one project; the stronger of it and the user's own counts there."""

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
    """A bearer token of a user; the secret is shown once and kept as a SHA-256 digest.

    The secret has 256 random bits, so a fast digest is safe: there is no dictionary to try.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=16)
    digest = models.BinaryField(max_length=32, unique=True)
    role = models.CharField(max_length=16, choices=ROLE_CHOICES, null=True, blank=True)  # noqa: DJ001 - null = the user's own
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
