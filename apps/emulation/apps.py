from django.apps import AppConfig


class EmulationConfig(AppConfig):
    """Emulated servers and applications."""

    name = "apps.emulation"
    label = "emulation"
    default_auto_field = "django.db.models.BigAutoField"
