from django.apps import AppConfig


class ProfilingConfig(AppConfig):
    name = "apps.profiling"
    label = "profiling"
    default_auto_field = "django.db.models.BigAutoField"
