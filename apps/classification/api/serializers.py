"""Profiles as the API shows them."""

from typing import Any

from rest_framework import serializers

from apps.classification.models import Profile
from apps.common.representations import time


class ClassificationSerializer(serializers.Serializer[Any]):
    """What is believed about an application: measured cells and inferred ones with intervals."""

    id = serializers.UUIDField()
    application = serializers.CharField()
    number = serializers.IntegerField(help_text="Counts the application's profiles.")
    revision = serializers.IntegerField(help_text="Of the matrices used.")
    estimator = serializers.CharField()
    created_at = serializers.DateTimeField()
    cells = serializers.DictField(help_text="By matrix: columns, value, low, high, measured.")


def represent_profile(profile: Profile, application: str) -> dict[str, Any]:
    """JSON of a profile."""
    return {
        "id": str(profile.pk),
        "application": application,
        "number": profile.number,
        "revision": profile.revision,
        "estimator": profile.estimator,
        "created_at": time(profile.created_at),
        "cells": profile.cells,
    }
