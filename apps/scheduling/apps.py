from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.db.models.signals import pre_delete


class SchedulingConfig(AppConfig):
    """Policies, agents, decisions and allocations."""

    name = "apps.scheduling"
    label = "scheduling"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Add the policies of other packages, check settings, guard the deletion of jobs."""
        from apps.scheduling.infrastructure.plugins import (  # noqa: PLC0415
            load_policies,
            require_policies,
        )
        from apps.scheduling.services.fair_share import require_counted  # noqa: PLC0415
        from apps.workloads.models import Job  # noqa: PLC0415

        load_policies()
        require_policies("BERTH_POLICY", [settings.DEFAULT_POLICY])
        require_policies("BERTH_JOB_POLICIES", settings.JOB_POLICIES)

        def on_delete(instance: Job, **_: Any) -> None:
            require_counted(instance)

        pre_delete.connect(on_delete, sender=Job, weak=False)
