"""Audit entries as the API shows them."""

from typing import Any

from rest_framework import serializers

from apps.accounts.infrastructure.actor import Via
from apps.accounts.models import AuditEntry
from apps.common.api.representations import time

VIAS = [(via.value, via.value) for via in Via]


class AuditEntrySerializer(serializers.Serializer[Any]):
    """One administrative act."""

    id = serializers.IntegerField()
    at = serializers.DateTimeField()
    action = serializers.CharField(help_text="Object and verb, such as plan.approved.")
    via = serializers.ChoiceField(choices=VIAS)
    username = serializers.CharField(help_text="Empty for Berth itself and unknown users.")
    user_id = serializers.UUIDField(allow_null=True)
    token_name = serializers.CharField()
    token_id = serializers.UUIDField(allow_null=True)
    object_kind = serializers.CharField()
    object_id = serializers.CharField()
    object_name = serializers.CharField()
    before = serializers.DictField(allow_null=True, help_text="Fields before the act.")
    after = serializers.DictField(allow_null=True, help_text="Fields after the act.")
    message = serializers.CharField()
    request_id = serializers.CharField()
    address = serializers.CharField()


def represent_audit_entry(entry: AuditEntry) -> dict[str, Any]:
    """JSON of an entry."""
    return {
        "id": entry.pk,
        "at": time(entry.at),
        "action": entry.action,
        "via": entry.via,
        "username": entry.username,
        "user_id": str(entry.user_id) if entry.user_id else None,
        "token_name": entry.token_name,
        "token_id": str(entry.token_id) if entry.token_id else None,
        "object_kind": entry.object_kind,
        "object_id": entry.object_id,
        "object_name": entry.object_name,
        "before": entry.before,
        "after": entry.after,
        "message": entry.message,
        "request_id": entry.request_id,
        "address": entry.address,
    }
