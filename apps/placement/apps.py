from django.apps import AppConfig


class PlacementConfig(AppConfig):
    """Objectives, fronts, preference sets, and the plans by which the cluster follows them."""

    name = "apps.placement"
    label = "placement"
    default_auto_field = "django.db.models.BigAutoField"
