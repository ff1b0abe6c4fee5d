from django.apps import AppConfig


class EmulationConfig(AppConfig):
    name = "apps.emulation"
    label = "emulation"
    default_auto_field = "django.db.models.BigAutoField"
