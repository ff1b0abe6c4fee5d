from django.apps import AppConfig


class ProfilingConfig(AppConfig):
    """Profiling runs of applications and their measurements."""

    name = "apps.profiling"
    label = "profiling"
    default_auto_field = "django.db.models.BigAutoField"
