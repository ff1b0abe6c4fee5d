"""Create, change and archive projects, and their memberships."""

from collections.abc import Callable, Mapping
from typing import Any, Final
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import ProtectedError
from django.utils import timezone

from apps.accounts.core.roles import Role, includes
from apps.accounts.models import Membership, Project, User
from apps.accounts.services.audit import Act, record_act
from apps.common.core.errors import (
    ConflictError,
    FieldProblem,
    InvalidInputError,
    NotFoundError,
)
from apps.common.core.preconditions import require_generation
from apps.common.infrastructure.database import fetch_prepared

DEFAULT_PROJECT: Final = "default"

# Called with the old and the new name in the transaction of a rename, before the project is
# locked. Each locks what it renames, and returns the function that renames it after that lock.
Renamer = Callable[[str, str], Callable[[], None]]
_RENAMERS: Final[list[Renamer]] = []
# The same for the deletion of a project: called with its name.
Retirer = Callable[[str], Callable[[], None]]
_RETIRERS: Final[list[Retirer]] = []
# Called in the transaction that changes a quota.
QuotaFollower = Callable[[], None]
_QUOTA_FOLLOWERS: Final[list[QuotaFollower]] = []
_QUOTA: Final = ("guaranteed_units", "max_units")


def ensure_project(name: str) -> Project:
    """Return the project of a name; create it if needed."""
    project, _ = Project.objects.get_or_create(name=name)
    return project


def join_project(*, user: User, project: Project, role: Role | None = None) -> Membership:
    """Make a user a member of a project; by default with the user's own role."""
    membership, _ = Membership.objects.update_or_create(
        user=user, project=project, defaults={"role": (role or Role(user.role)).value}
    )
    return membership


def create_project(name: str, values: Mapping[str, Any]) -> Project:
    """Create a project.

    Parameters
    ----------
    values : further fields of `Project`

    Raises
    ------
    ConflictError : the name is taken.
    """
    try:
        with transaction.atomic():
            project = Project(name=name, **values)
            _check_quota(project)
            project.save(force_insert=True)
            act = Act("project.created", str(project.pk), name, after=project.editable_fields())
            record_act(act)
    except IntegrityError as error:
        raise ConflictError(f"A project named {name} already exists.") from error
    return project


def update_project(
    project_id: UUID, changes: Mapping[str, Any], *, expected: int | None = None
) -> Project:
    """Rename, describe, label, archive or restore a project, or change its quota.

    Parameters
    ----------
    changes : new values by field of `Project`; ``is_archived`` sets or clears ``archived_at``

    Raises
    ------
    ChangedMeanwhileError : its generation is no longer ``expected``.
    ConflictError : the name is taken, or something that bears the name cannot be renamed with it.
    InvalidInputError : more units are guaranteed than it may use in all.
    """
    try:
        with transaction.atomic():
            known = Project.objects.values_list("name", flat=True).filter(pk=project_id).first()
            followers = _followers(known, changes.get("name"))
            project = _locked(project_id)
            require_generation(expected, project.generation)
            before, name = project.editable_fields(), project.name
            if followers and name != known:
                raise ConflictError(f"The project {known} was renamed to {name} meanwhile.")
            for field, value in changes.items():
                if field != "is_archived":
                    setattr(project, field, value)
                elif value != (project.archived_at is not None):
                    project.archived_at = timezone.now() if value else None
            _check_quota(project)
            project.save()
            after = project.editable_fields()
            if after != before:
                record_act(Act("project.updated", str(project_id), name, before, after))
            if any(after[field] != before[field] for field in _QUOTA):
                followers = followers + _QUOTA_FOLLOWERS
            for follow in followers:
                follow()
    except IntegrityError as error:
        raise ConflictError(f"A project named {changes.get('name')} already exists.") from error
    return project


def rename_with_projects(renamer: Renamer) -> None:
    """Rename something of an app that this one does not know together with each project."""
    _RENAMERS.append(renamer)


def retire_with_projects(retirer: Retirer) -> None:
    """Release the name of a deleted project in an app that this one does not know."""
    _RETIRERS.append(retirer)


def follow_quotas(follower: QuotaFollower) -> None:
    """Let an app that this one does not know follow changes of quotas."""
    _QUOTA_FOLLOWERS.append(follower)


def keep_open(project_id: UUID) -> str | None:
    """Keep a project from being archived or renamed until the transaction ends.

    Transactions that do so do not wait for each other.

    Returns
    -------
    its name; None if it is archived
    """
    sql = "SELECT name FROM accounts_project WHERE id = %s AND archived_at IS NULL FOR SHARE"
    rows = fetch_prepared(sql, [project_id])
    return rows[0][0] if rows else None


def delete_project(project_id: UUID, *, expected: int | None = None) -> None:
    """Delete a project without jobs, and its memberships.

    A later project of the same name gets nothing of it.

    Raises
    ------
    ChangedMeanwhileError : its generation is no longer ``expected``.
    ConflictError : it has jobs, or it changes at the same time.
    """
    with transaction.atomic():
        known = Project.objects.values_list("name", flat=True).filter(pk=project_id).first()
        followers = [] if known is None else [retirer(known) for retirer in _RETIRERS]
        project = _locked(project_id)
        require_generation(expected, project.generation)
        before, name = project.editable_fields(), project.name
        if name != known:
            raise ConflictError(f"The project {known} was renamed to {name} meanwhile.")
        try:
            project.delete()
        except ProtectedError as error:
            raise ConflictError(f"The project {name} has jobs: archive it instead.") from error
        record_act(Act("project.deleted", str(project_id), name, before))
        for follow in followers:
            follow()


def set_membership(*, user: User, project: Project, role: Role) -> Membership:
    """Make a user a member of a project, or change the role of a member."""
    with transaction.atomic():
        _locked(project.pk)
        earlier = Membership.objects.filter(user=user, project=project).first()
        before = None if earlier is None else {"role": str(earlier.role)}
        if before == {"role": role.value}:
            assert earlier is not None  # noqa: S101  (before is its role)
            return earlier
        membership = join_project(user=user, project=project, role=role)
        action = "membership.created" if before is None else "membership.updated"
        record_act(_membership_act(action, user, project, before, {"role": role.value}))
    return membership


def remove_membership(*, user: User, project: Project) -> None:
    """Remove a user from a project; open streams and sessions lose its jobs.

    Raises
    ------
    NotFoundError : the user is not a member.
    """
    with transaction.atomic():
        _locked(project.pk)
        row = Membership.objects.filter(user=user, project=project).first()
        if row is None:
            raise NotFoundError(f"{user.username} is not a member of {project.name}.")
        before = {"role": str(row.role)}
        row.delete()
        record_act(_membership_act("membership.removed", user, project, before, None))


def lower_memberships(user: User) -> None:
    """Lower the memberships of a user whose own role was lowered to at most that role.

    Runs in the caller's transaction, which has locked the user.
    """
    rows = Membership.objects.filter(user=user).select_related("project")
    for row in rows.select_for_update(of=("self",)).order_by("pk"):
        if includes(user.role, row.role):
            continue
        before, after = {"role": str(row.role)}, {"role": user.role}
        row.role = user.role
        row.save(update_fields=["role"])
        record_act(_membership_act("membership.updated", user, row.project, before, after))


def _followers(name: str | None, to: str | None) -> list[Callable[[], None]]:
    """Return what to do once a project is renamed."""
    if name is None or to is None or to == name:
        return []
    return [renamer(name, to) for renamer in _RENAMERS]


def _locked(project_id: UUID) -> Project:
    project = Project.objects.select_for_update().filter(pk=project_id).first()
    if project is None:
        raise NotFoundError(f"There is no project {project_id}.")
    return project


def _check_quota(project: Project) -> None:
    guaranteed, limit = project.guaranteed_units, project.max_units
    if guaranteed is not None and limit is not None and limit < guaranteed:
        detail = f"must be at least the {guaranteed} guaranteed units, not {limit}"
        raise InvalidInputError([FieldProblem("/max_units", "too_small", detail)])


def _membership_act(
    action: str,
    user: User,
    project: Project,
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any] | None,
) -> Act:
    name = f"{user.username} in {project.name}"
    return Act(action, f"{project.pk}", name, before, after)
