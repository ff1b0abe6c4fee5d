"""Users and blocked sign-ins as administrators see them."""

from typing import Any

from rest_framework import serializers

from apps.accounts.api.serializers import ROLES, ProjectRoleSerializer
from apps.accounts.core.sign_in import Subject
from apps.accounts.models import SignInFailures, User
from apps.common.api.representations import time

SUBJECTS = [(subject.value, subject.value) for subject in Subject]


class UserSerializer(serializers.Serializer[Any]):
    """A person or a service account."""

    id = serializers.UUIDField()
    username = serializers.CharField()
    role = serializers.ChoiceField(choices=ROLES)
    is_service = serializers.BooleanField()
    is_active = serializers.BooleanField()
    must_change_password = serializers.BooleanField(
        help_text="The password is a one-time password."
    )
    projects = ProjectRoleSerializer(many=True)
    created_at = serializers.DateTimeField()
    signed_in_at = serializers.DateTimeField(allow_null=True)


class NewUserSerializer(UserSerializer):
    """A user with its credentials."""

    one_time_password = serializers.CharField(
        allow_null=True, help_text="Null for service accounts."
    )
    token = serializers.CharField()


class UserRequestSerializer(serializers.Serializer[Any]):
    """The request for a new user."""

    username = serializers.CharField(max_length=150)
    role = serializers.ChoiceField(choices=ROLES, default="submitter")
    is_service = serializers.BooleanField(default=False)
    projects = serializers.ListField(
        child=serializers.SlugField(max_length=63),
        default=lambda: ["default"],
        max_length=100,
        help_text="Projects to join with the same role; they must exist. If omitted, `default`; "
        "[] = none.",
    )


class UserPatchSerializer(serializers.Serializer[Any]):
    """A change of a user."""

    role = serializers.ChoiceField(choices=ROLES, required=False)
    is_active = serializers.BooleanField(required=False)


class OneTimePasswordSerializer(serializers.Serializer[Any]):
    """A one-time password."""

    one_time_password = serializers.CharField()


class BlockedSignInSerializer(serializers.Serializer[Any]):
    """An account or address that has to wait before the next attempt to sign in."""

    id = serializers.UUIDField()
    subject = serializers.ChoiceField(choices=SUBJECTS)
    name = serializers.CharField(
        help_text="User name or address; empty for a user name that does not exist."
    )
    failures = serializers.IntegerField()
    failed_at = serializers.DateTimeField()
    blocked_until = serializers.DateTimeField()


def represent_user(user: User) -> dict[str, Any]:
    """JSON of a user whose memberships are loaded."""
    return {
        "id": str(user.pk),
        "username": user.username,
        "role": user.role,
        "is_service": user.is_service,
        "is_active": user.is_active,
        "must_change_password": user.must_change_password,
        "projects": [
            {"id": str(row.project_id), "name": row.project.name, "role": row.role}
            for row in user.memberships.all()
        ],
        "created_at": time(user.date_joined),
        "signed_in_at": time(user.last_login),
    }


def represent_blocked_sign_in(row: SignInFailures) -> dict[str, Any]:
    """JSON of a blocked account or address."""
    is_account = row.subject == Subject.ACCOUNT
    return {
        "id": str(row.pk),
        "subject": row.subject,
        "name": (row.user.username if row.user else "") if is_account else row.key,
        "failures": row.failures,
        "failed_at": time(row.failed_at),
        "blocked_until": time(row.blocked_until),
    }
