from django.apps import AppConfig


class ClassificationConfig(AppConfig):
    """Utility matrices, estimators and profiles of applications."""

    name = "apps.classification"
    label = "classification"
    default_auto_field = "django.db.models.BigAutoField"
