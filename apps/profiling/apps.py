from django.apps import AppConfig


class ProfilingConfig(AppConfig):
    """What to measure of an application, and what was measured."""

    name = "apps.profiling"
    label = "profiling"
    default_auto_field = "django.db.models.BigAutoField"
