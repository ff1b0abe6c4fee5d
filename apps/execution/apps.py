from django.apps import AppConfig


class ExecutionConfig(AppConfig):
    """Launches of jobs, backends and their reports."""

    name = "apps.execution"
    label = "execution"
    default_auto_field = "django.db.models.BigAutoField"
