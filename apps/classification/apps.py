from django.apps import AppConfig


class ClassificationConfig(AppConfig):
    """Matrices, their estimates and what is believed of each application."""

    name = "apps.classification"
    label = "classification"
    default_auto_field = "django.db.models.BigAutoField"
