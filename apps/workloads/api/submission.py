"""Parsing of submissions: the project, and the specs of all items."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from django.conf import settings

from apps.accounts.core.principal import Principal
from apps.accounts.core.roles import Role
from apps.accounts.models import Project, User
from apps.accounts.selectors import archived_projects
from apps.common.api.problems import ProblemError
from apps.common.core.errors import FieldProblem, InvalidInputError
from apps.common.core.problem_codes import ProblemCode
from apps.inventory.selectors import constraint_warnings
from apps.workloads.core.addresses import without_address
from apps.workloads.core.archives import DIGEST
from apps.workloads.core.arrays import ArraySpec, parse_array
from apps.workloads.core.spec import JobSpec, parse_job
from apps.workloads.selectors import application_kinds, job_limits

MAX_ITEMS: Final = 10_000
MAX_ARCHIVES: Final = 20  # of the items of one batch: to check one takes up to 0.1 s


def choose_project(
    principal: Principal, name: str | None, *, at: str = "/metadata/project"
) -> Project:
    """Return the project to submit to: the named one, or the only one of the caller.

    Parameters
    ----------
    at : pointer to the field that names it

    Raises
    ------
    ProblemError : the caller may not submit there.
    InvalidInputError : the caller has no such project, or has several and named none.
    """
    if name is None:
        return _only_project(principal, at)
    for project_id, (known, _) in sorted(principal.projects.items()):
        if known == name:
            if not principal.may(Role.SUBMITTER, project_id):
                raise ProblemError(
                    ProblemCode.PERMISSION_DENIED,
                    f"This needs the role submitter in the project {known}.",
                )
            return Project(pk=project_id, name=known)
    # Not a 404, as the address exists; and do not reveal whether the project exists.
    known_names = _names(principal.projects) or "none"
    detail = f"must be one of your projects: {known_names}, not {name!r:.60}"
    raise InvalidInputError([FieldProblem(at, "unknown_value", detail)])


def _only_project(principal: Principal, at: str) -> Project:
    """Return the only project that the caller may submit to and that accepts jobs."""
    rows = principal.projects.items()
    mine = {key: row for key, row in rows if principal.may(Role.SUBMITTER, key)}
    if len(mine) > 1:
        archived = archived_projects(mine)
        mine = {key: row for key, row in mine.items() if key not in archived} or mine
    if len(mine) == 1:
        ((key, (name, _)),) = mine.items()
        return Project(pk=key, name=name)
    detail = f"is required, as you have several projects; must be one of: {_names(mine)}"
    if not mine:
        detail = "must be one of your projects: none"
    raise InvalidInputError([FieldProblem(at, "required", detail)])


def _names(projects: Mapping[UUID, tuple[str, Role]]) -> str:
    return ", ".join(sorted(name for name, _ in projects.values()))


def submission_warnings(spec: JobSpec) -> list[str]:
    """Return a sentence for each constraint that no server of the cluster matches."""
    constraints = spec.constraints
    return constraint_warnings(constraints.platforms, constraints.labels, constraints.excluded)


def caller_as_user(principal: Principal) -> User:
    """Return the user as a row to refer to, without reading it."""
    return User(pk=principal.user_id, username=principal.username, role=principal.role.value)


def parse_array_job(data: Any) -> tuple[JobSpec, ArraySpec]:
    """Parse a job and the indexes of its array.

    Raises
    ------
    InvalidInputError : lists all problems.
    """
    if not isinstance(data, Mapping):
        raise InvalidInputError([FieldProblem("", "wrong_type", "must be a job with an array")])
    problems: list[FieldProblem] = []
    spec = array = None
    try:
        array = parse_array(data.get("array"), at="/array", max_size=settings.MAX_ARRAY)
    except InvalidInputError as error:
        problems += error.problems
    try:
        job = {name: value for name, value in data.items() if name != "array"}
        spec = parse_job(job, limits=job_limits())
    except InvalidInputError as error:
        problems += error.problems
    if spec is None or array is None:
        raise InvalidInputError(problems)
    return spec, array


@dataclass(frozen=True, slots=True)
class Parsed:
    """Items of a batch by index: specs of the valid ones, problems of the others."""

    specs: Mapping[int, JobSpec]
    problems: Mapping[int, Sequence[FieldProblem]]


def parse_items(items: Sequence[Any], defaults: Mapping[str, Any] | None) -> Parsed:
    """Parse all items of a batch.

    Raises
    ------
    InvalidInputError : the number of items, or of their archives, is out of range.
    """
    if not 1 <= len(items) <= MAX_ITEMS:
        raise InvalidInputError(
            [
                FieldProblem(
                    "/items",
                    "wrong_count",
                    f"must have 1 to {MAX_ITEMS:,} items, not {len(items):,}",
                )
            ]
        )
    _limit_archives(items)
    limits = job_limits()
    specs: dict[int, JobSpec] = {}
    problems: dict[int, Sequence[FieldProblem]] = {}
    index_of: dict[str, int] = {}
    for i, item in enumerate(items):
        try:
            spec = parse_job(_with_defaults(item, defaults), at=f"/items/{i}", limits=limits)
        except InvalidInputError as error:
            problems[i] = error.problems
            continue
        if spec.client_id is not None and index_of.setdefault(spec.client_id, i) != i:
            problems[i] = [
                FieldProblem(
                    f"/items/{i}/client_id",
                    "repeated",
                    f"item {index_of[spec.client_id]} has the same client_id",
                )
            ]
            continue
        specs[i] = spec
    return Parsed(specs, problems)


def refuse_names_without_address(parsed: Parsed) -> Parsed:
    """Return the items without those that name a new application that has no address.

    Applications of earlier versions may have such a name.
    """
    found = {
        i: problem
        for i, spec in parsed.specs.items()
        if (problem := without_address(spec.application, at=f"/items/{i}/spec/application"))
    }
    if not found:
        return parsed
    known = application_kinds(parsed.specs[i].application for i in found)
    refused = {i: [found[i]] for i in found if parsed.specs[i].application not in known}
    specs = {i: spec for i, spec in parsed.specs.items() if i not in refused}
    return Parsed(specs, {**parsed.problems, **refused})


def _limit_archives(items: Sequence[Any]) -> None:
    specs = [item.get("spec", item) for item in items if isinstance(item, Mapping)]
    texts = [spec.get("files") for spec in specs if isinstance(spec, Mapping)]
    count = sum(isinstance(text, str) and not text.startswith(DIGEST) for text in texts)
    if count > MAX_ARCHIVES:
        detail = (
            f"must have at most {MAX_ARCHIVES} items with an archive, not {count:,}; give one in"
            " defaults, or name it by its sha256:..."
        )
        raise InvalidInputError([FieldProblem("/items", "too_many_archives", detail)])


def _with_defaults(item: Any, defaults: Mapping[str, Any] | None) -> Any:
    if not defaults or not isinstance(item, Mapping):
        return item
    if "spec" not in item and "spec" not in defaults:
        return {**defaults, **item}
    merged = {**defaults, **item}
    for part in ("metadata", "spec"):
        inner, outer = item.get(part), defaults.get(part)
        if isinstance(inner, Mapping) and isinstance(outer, Mapping):
            merged[part] = {**outer, **inner}
    return merged


def refuse_foreign_projects(parsed: Parsed, project: Project) -> Parsed:
    """Reject the items that name a project other than that of the batch."""
    foreign = {
        i: [
            FieldProblem(
                f"/items/{i}/metadata/project",
                "unknown_value",
                f"must be the project of the batch, {project.name}",
            )
        ]
        for i, spec in parsed.specs.items()
        if spec.project not in {None, project.name}
    }
    if not foreign:
        return parsed
    accepted = {i: spec for i, spec in parsed.specs.items() if i not in foreign}
    return Parsed(accepted, {**parsed.problems, **foreign})


def project_of_batch(principal: Principal, name: str | None, parsed: Parsed) -> Project:
    """Return the project of a batch: the named one, that of its items, or the caller's only one.

    Raises
    ------
    ProblemError : the caller may not submit there.
    InvalidInputError : the caller has no such project, or has several and named none.
    """
    of_items = {spec.project for spec in parsed.specs.values()}
    if name is None and len(of_items) == 1:
        mine = {known for known, _ in principal.projects.values()}
        (name,) = of_items & mine or {None}
    return choose_project(principal, name, at="/project")


def job_url(job_id: UUID) -> str:
    """Return the canonical address of a job."""
    return f"/api/v1/jobs/{job_id}/"
