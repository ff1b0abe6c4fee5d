"""The stored shares of projects."""

from collections.abc import Sequence
from typing import Final

from apps.accounts.models import ProjectShare

_STATE: Final = (
    *("half_life_s", "cluster_s", "sequence", "settled", "shares"),
    *("dominant", "resource", "position"),
)


def store_shares(rows: Sequence[ProjectShare]) -> None:
    """Insert or replace the shares of projects."""
    ProjectShare.objects.bulk_create(
        sorted(rows, key=lambda row: row.project_id),
        update_conflicts=True,
        unique_fields=["project"],
        update_fields=_STATE,
    )


def clear_shares() -> None:
    """Delete all shares."""
    if ProjectShare.objects.exists():
        ProjectShare.objects.all().delete()
