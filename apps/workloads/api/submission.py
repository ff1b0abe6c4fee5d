"""From a request to jobs: whose project, which specs, all or each for itself."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from apps.accounts.core.principal import Principal
from apps.accounts.core.roles import Role
from apps.accounts.models import Project, User
from apps.common.core.errors import FieldProblem, InvalidInputError
from apps.common.core.problem_codes import ProblemCode
from apps.common.problems import ProblemError
from apps.workloads.core.spec import JobSpec, parse_job

MAX_ITEMS: Final = 10_000


def choose_project(principal: Principal, name: str | None) -> Project:
    """Return the project to submit to: the named one, or the caller's first.

    Raises
    ------
    ProblemError : the caller has no such project, or may not submit there.
    """
    for project_id, (known, _) in sorted(principal.projects.items()):
        if name is None or known == name:
            if not principal.may(Role.SUBMITTER, project_id):
                raise ProblemError(
                    ProblemCode.PERMISSION_DENIED,
                    f"This needs the role submitter in the project {known}.",
                )
            return Project(pk=project_id, name=known)
    # Not a 404: the address exists. Not a hint either whether the project does.
    known_names = ", ".join(sorted(known for known, _ in principal.projects.values())) or "none"
    raise InvalidInputError(
        [
            FieldProblem(
                "/metadata/project", "unknown_value", f"must be one of yours: {known_names}"
            )
        ]
    )


def caller_as_user(principal: Principal) -> User:
    """Return a user row good enough to refer to; saves reading it."""
    return User(pk=principal.user_id, username=principal.username)


@dataclass(frozen=True, slots=True)
class Parsed:
    """Items of a batch: specs of the good ones by index, problems of the others."""

    specs: Mapping[int, JobSpec]
    problems: Mapping[int, Sequence[FieldProblem]]


def parse_items(items: Sequence[Any], defaults: Mapping[str, Any] | None) -> Parsed:
    """Read every item, whatever is wrong with the others.

    Raises
    ------
    InvalidInputError : there are none or too many, or two share a client_id.
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
    specs: dict[int, JobSpec] = {}
    problems: dict[int, Sequence[FieldProblem]] = {}
    seen: dict[str, int] = {}
    for i, item in enumerate(items):
        try:
            spec = parse_job(_with_defaults(item, defaults), at=f"/items/{i}")
        except InvalidInputError as error:
            problems[i] = error.problems
            continue
        if spec.client_id is not None and seen.setdefault(spec.client_id, i) != i:
            problems[i] = [
                FieldProblem(
                    f"/items/{i}/client_id",
                    "repeated",
                    f"item {seen[spec.client_id]} has the same client_id",
                )
            ]
            continue
        specs[i] = spec
    return Parsed(specs, problems)


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
    """Turn items that name another project than the batch's into problems."""
    foreign = {
        i: [
            FieldProblem(
                f"/items/{i}/metadata/project",
                "unknown_value",
                f"a batch goes to one project, {project.name} here",
            )
        ]
        for i, spec in parsed.specs.items()
        if spec.project not in {None, project.name}
    }
    if not foreign:
        return parsed
    kept = {i: spec for i, spec in parsed.specs.items() if i not in foreign}
    return Parsed(kept, {**parsed.problems, **foreign})


def job_url(job_id: UUID) -> str:
    """Return the canonical address of a job."""
    return f"/api/v1/jobs/{job_id}/"
