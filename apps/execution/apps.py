from django.apps import AppConfig


class ExecutionConfig(AppConfig):
    """Launches, backends and what they report."""

    name = "apps.execution"
    label = "execution"
    default_auto_field = "django.db.models.BigAutoField"
