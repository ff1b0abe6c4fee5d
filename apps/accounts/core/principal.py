"""The caller of a request and its rights, for sessions and tokens alike."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from apps.accounts.core.roles import RANK, Role, includes


@dataclass(frozen=True, slots=True)
class Credential:
    """What a caller identified with: a token, or a browser session. Its rights end with it."""

    token_id: UUID | None = None
    session_key: str = ""


@dataclass(frozen=True, slots=True)
class TokenLimits:
    """What a token allows at most; None for no limit."""

    token_id: UUID
    role: Role | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller of one request.

    Attributes
    ----------
    role : the caller's role in the whole cluster, at most the token's
    projects : project id to (name, role there): the stronger of membership and ``role``, at most
        the token's
    token_id : None for a browser session
    limit : the role limit of the token; None if there is none
    expires_at : end of the token; None if there is none
    """

    user_id: UUID
    username: str
    role: Role
    projects: Mapping[UUID, tuple[str, Role]]
    is_service: bool = False
    token_id: UUID | None = None
    limit: Role | None = None
    expires_at: datetime | None = None

    def is_limited(self) -> bool:
        """Return True if the token limits what its user may do, by role or in time."""
        return self.limit is not None or self.expires_at is not None

    def sees_everything(self) -> bool:
        """Return True for operators and admins, who manage all projects."""
        return includes(self.role, Role.OPERATOR)

    def sees(self, project_id: UUID | None) -> bool:
        """Return True if the caller may see the objects of a project; None: of no project."""
        return project_id is None or self.sees_everything() or project_id in self.projects

    def may(self, needed: Role, project_id: UUID) -> bool:
        """Return True if the caller has the role ``needed`` in a project."""
        if self.sees_everything() and includes(self.role, needed):
            return True
        held = self.projects.get(project_id)
        return held is not None and includes(held[1], needed)

    def best_role(self) -> Role:
        """Return the strongest role of the caller, in the cluster or in a project."""
        return max(
            [self.role, *(role for _, role in self.projects.values())], key=RANK.__getitem__
        )


def make_principal(
    *,
    user_id: UUID,
    username: str,
    role: str,
    is_service: bool,
    memberships: Mapping[UUID, tuple[str, str]],
    token: TokenLimits | None = None,
) -> Principal:
    """Combine the role of a user, the memberships and the limits of the token."""
    limit = (token.role if token else None) or Role.ADMIN

    def effective(*roles: str) -> Role:
        strongest = max((Role(r) for r in roles), key=RANK.__getitem__)
        return min(strongest, limit, key=RANK.__getitem__)

    return Principal(
        user_id=user_id,
        username=username,
        role=effective(role),
        projects={
            project: (name, effective(role, inside))
            for project, (name, inside) in memberships.items()
        },
        is_service=is_service,
        token_id=token.token_id if token else None,
        limit=token.role if token else None,
        expires_at=token.expires_at if token else None,
    )
