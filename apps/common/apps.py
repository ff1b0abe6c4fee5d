from django.apps import AppConfig


class CommonConfig(AppConfig):
    """What three apps share."""

    name = "apps.common"
    label = "common"
    default_auto_field = "django.db.models.BigAutoField"
