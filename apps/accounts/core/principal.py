"""Who makes a request, with what rights; the same for sessions and tokens."""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from apps.accounts.core.roles import RANK, Role, includes


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller of one request.

    Attributes
    ----------
    role : the caller's role everywhere, not above the token's
    projects : project id to (name, role there), the stronger of membership and ``role``, not above
        the token's
    token_id : None for a browser session
    limit : the token's own limit; None = all the user may do
    """

    user_id: UUID
    username: str
    role: Role
    projects: Mapping[UUID, tuple[str, Role]]
    is_service: bool = False
    token_id: UUID | None = None
    limit: Role | None = None

    def sees_everything(self) -> bool:
        """Return True for operators and admins, who look after all projects."""
        return includes(self.role, Role.OPERATOR)

    def sees(self, project_id: UUID | None) -> bool:
        """Return True where the caller may know of a project's objects; None = nobody's."""
        return project_id is None or self.sees_everything() or project_id in self.projects

    def may(self, needed: Role, project_id: UUID) -> bool:
        """Return True where the caller has ``needed`` inside a project."""
        if self.sees_everything() and includes(self.role, needed):
            return True
        held = self.projects.get(project_id)
        return held is not None and includes(held[1], needed)

    def best_role(self) -> Role:
        """Return the strongest role the caller has anywhere."""
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
    token: tuple[UUID, str | None] | None = None,
) -> Principal:
    """Combine a user's role, the memberships and the limit of a token (id, role)."""
    limit = Role(token[1]) if token and token[1] else Role.ADMIN

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
        token_id=token[0] if token else None,
        limit=Role(token[1]) if token and token[1] else None,
    )
