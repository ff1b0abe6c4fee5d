"""Filters and order of the Applications page, read from its address."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

KINDS: Final = {
    "analytics": "analytics",
    "latency_critical": "latency critical",
    "single_node": "single node",
    "batch": "batch",
}
STANDINGS: Final = {
    "drifted": "drifted",
    "unprofiled": "not profiled",
    "degraded": "degraded",
}
SORTS: Final = {  # name in the address: (columns, largest first)
    "name": (("name",), False),
    "running": (("running", "id"), True),
    "profiled": (("profiled_at", "id"), True),
    "error": (("error_size", "id"), True),
}
ORDERS: Final = {
    "name": "by name",
    "running": "most running jobs first",
    "profiled": "newest profile first",
    "error": "largest error first",
}
DEFAULT_SORT: Final = "name"


@dataclass(frozen=True, slots=True)
class ApplicationQuery:
    """Filters and order of applications; empty filters match all."""

    text: str = ""
    kind: str = ""
    standing: str = ""
    sort: str = DEFAULT_SORT

    @property
    def is_filtered(self) -> bool:
        """Whether any filter is set."""
        return bool(self.text or self.kind or self.standing)

    @property
    def order_words(self) -> str:
        """Display name of the order."""
        return ORDERS[self.sort]

    @property
    def words(self) -> str:
        """Summary of the filters."""
        parts = [KINDS.get(self.kind, ""), STANDINGS.get(self.standing, "")]
        named = f"name contains “{self.text}”" if self.text else ""
        return ", ".join(part for part in (*parts, named) if part)


def read(parameters: Mapping[str, str]) -> ApplicationQuery:
    """Read an address; unknown values are ignored."""
    kind, standing = parameters.get("kind", ""), parameters.get("standing", "")
    sort = parameters.get("sort", "")
    return ApplicationQuery(
        text=parameters.get("q", "").strip(),
        kind=kind if kind in KINDS else "",
        standing=standing if standing in STANDINGS else "",
        sort=sort if sort in SORTS else DEFAULT_SORT,
    )
