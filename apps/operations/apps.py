from django.apps import AppConfig


class OperationsConfig(AppConfig):
    """Events, keys and operations."""

    name = "apps.operations"
    label = "operations"
    default_auto_field = "django.db.models.BigAutoField"
