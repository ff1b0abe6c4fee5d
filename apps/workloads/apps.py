from django.apps import AppConfig


class WorkloadsConfig(AppConfig):
    """Applications, jobs and their life."""

    name = "apps.workloads"
    label = "workloads"
    default_auto_field = "django.db.models.BigAutoField"
