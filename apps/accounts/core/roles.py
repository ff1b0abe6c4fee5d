"""Who may do what: four roles, each including the ones before it."""

from enum import StrEnum
from typing import Final


class Role(StrEnum):
    """What a person or a service account may do."""

    VIEWER = "viewer"  # sees
    SUBMITTER = "submitter"  # and submits and changes jobs of the own projects
    OPERATOR = "operator"  # and changes servers and every job
    ADMIN = "admin"  # and users, projects and tokens of others


RANK: Final = {role: rank for rank, role in enumerate(Role)}


def includes(held: str, needed: str) -> bool:
    """Return True where a holder of ``held`` may do what ``needed`` may."""
    return RANK[Role(held)] >= RANK[Role(needed)]


def highest(roles: list[str]) -> Role:
    """Return the strongest of some roles; viewer where there is none."""
    return max((Role(role) for role in roles), key=RANK.__getitem__, default=Role.VIEWER)
