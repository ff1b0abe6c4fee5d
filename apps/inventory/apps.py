from django.apps import AppConfig


class InventoryConfig(AppConfig):
    """Platforms, racks, servers, units and the change log."""

    name = "apps.inventory"
    label = "inventory"
    default_auto_field = "django.db.models.BigAutoField"
