from django.apps import AppConfig
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured


class ProfilingConfig(AppConfig):
    """Profiling runs of applications and their measurements."""

    name = "apps.profiling"
    label = "profiling"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Check the stressors that a setting names: else no command could be submitted."""
        from apps.profiling.core.probe import probe_plan  # noqa: PLC0415

        try:
            probe_plan(settings.PROBE_STRESSORS)
        except ValueError as error:
            raise ImproperlyConfigured(f"BERTH_PROBE_STRESSORS: {error}") from error
