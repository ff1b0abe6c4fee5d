"""The four roles; each includes the ones before it."""

from enum import StrEnum
from typing import Final


class Role(StrEnum):
    """The role of a person or service account."""

    VIEWER = "viewer"  # reads
    SUBMITTER = "submitter"  # also submits and changes jobs of its projects
    OPERATOR = "operator"  # also changes servers and all jobs
    ADMIN = "admin"  # also changes users, projects and all tokens


RANK: Final = {role: rank for rank, role in enumerate(Role)}


def includes(held: str, needed: str) -> bool:
    """Return True if the role ``held`` includes the role ``needed``."""
    return RANK[Role(held)] >= RANK[Role(needed)]


def highest(roles: list[str]) -> Role:
    """Return the strongest of some roles; viewer where there is none."""
    return max((Role(role) for role in roles), key=RANK.__getitem__, default=Role.VIEWER)
