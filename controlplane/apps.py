"""Makes Berth's Celery application the current one in every Django process."""

from importlib import import_module

from django.apps import AppConfig


class ControlPlaneConfig(AppConfig):
    """The processes of the control plane."""

    name = "controlplane"

    def ready(self) -> None:
        """Create the Celery application, which tasks notify through.

        Not in `controlplane/__init__.py`: the command line client would load Celery at every call.
        """
        import_module("controlplane.celery")
