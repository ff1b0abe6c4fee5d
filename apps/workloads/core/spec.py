"""The specification of a job: parsed from JSON and checked field by field."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from apps.common.core.errors import FieldProblem, InvalidInputError
from apps.workloads.core.archives import Archive
from apps.workloads.core.checks import (
    Check,
    Problems,
    annotations,
    escape,
    flag,
    integer,
    labels,
    name_of,
    number,
    one_of,
    optional_flag,
    problem,
)
from apps.workloads.core.commands import (
    PROGRESS_LIMITS_S,
    account,
    argv,
    complete_command,
    directory,
    environment,
    files,
)
from apps.workloads.core.constraints import ANYWHERE, Constraints, check_constraints
from apps.workloads.core.costs import check_ceiling
from apps.workloads.core.fields import read_fields
from apps.workloads.core.guarantees import (
    MAX_R,
    JobLimits,
    QualityGuarantee,
    check_decision,
    check_guarantee,
)
from apps.workloads.core.targets import Target, TargetKind, check_target

KIND_BY_TARGET: Final = {
    TargetKind.COMPLETION_TIME: "analytics",
    TargetKind.THROUGHPUT_LATENCY: "latency_critical",
    TargetKind.IPS: "single_node",
    TargetKind.BEST_EFFORT: "batch",
}


@dataclass(frozen=True, slots=True)
class JobSpec:
    """The specification of one job.

    Attributes
    ----------
    application : name of the application
    target : performance target
    name : of the job; None = derived from the application's name
    project : name of the project; None = the submitter's own
    application_kind : kind of a new application; None = determined by the target's kind
    input_bytes, tasks : size of the work, and the number of tasks it is divided into
    units : fixed number of resource units; None = as many as the target needs
    duration_s : cluster seconds a service runs; None = until cancelled
    priority : -100 to 100, higher is more urgent
    gang : True = start only with all units; False = start with some, and get the rest later
    policy : placement policy; None = the default
    sample_size : R candidates per unit; None = from the guarantee, or the policy's default
    guarantee : R follows from it and the load; None = no guarantee
    held : True = do not place before release
    unit_* : resources of the server needed per unit; 0 = an equal share
    client_id : the submitter's name for one item of a batch
    command, environment, working_directory : of the program to run; empty = emulated
    files : unpacked into the new working directory of the command; None = it is empty
    user : account that runs the command; None = that of the agent's configuration
    copyable : whether copies of the command may run, to profile it
    id : of the job; None = a new one
    probe : how a copy is measured (`profiling.core.probe`); None = the command itself runs
    progress_command : prints the progress of the command; None = the command writes it itself
    progress_every_s : wall seconds between two runs of it
    backend : that it was submitted to, which runs it; empty = any that can
    """

    application: str
    target: Target
    name: str | None = None
    project: str | None = None
    application_kind: str | None = None
    input_bytes: int = 0
    tasks: int = 1
    units: int | None = None
    duration_s: float | None = None
    priority: int = 0
    gang: bool = True
    policy: str | None = None
    sample_size: int | None = None
    guarantee: QualityGuarantee | None = None
    held: bool = False
    constraints: Constraints = ANYWHERE
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, Any] = field(default_factory=dict)
    unit_memory_bytes: int = 0
    unit_network_bps: int = 0
    unit_storage_bytes: int = 0
    client_id: str | None = None
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    working_directory: str | None = None
    files: Archive | None = None
    user: str | None = None
    progress_command: tuple[str, ...] | None = None
    progress_every_s: float | None = None
    backend: str = ""
    copyable: bool = False
    id: UUID | None = None
    probe: Mapping[str, Any] | None = None

    @property
    def kind(self) -> str:
        """Kind to create a new application with."""
        return self.application_kind or KIND_BY_TARGET[self.target.kind]

    @property
    def asks_sample(self) -> bool:
        """Whether it names R or a guarantee."""
        return self.sample_size is not None or self.guarantee is not None

    def program(self) -> dict[str, Any] | None:
        """Return the stored form of the command; None without one."""
        if not self.command:
            return None
        optional: dict[str, Any] = {
            "user": self.user,
            "copyable": self.copyable,
            "probe": None if self.probe is None else dict(self.probe),
            "progress_command": self.progress_command and list(self.progress_command),
            "progress_every_seconds": self.progress_every_s,
        }
        return {
            "command": list(self.command),
            "environment": dict(self.environment),
            "working_directory": self.working_directory,
            **{name: value for name, value in optional.items() if value},
        }


MAX_AMOUNT: Final = 2**62  # bytes, or bytes/s
DURATION_LIMITS_S: Final = (1e-3, 1e9)
_SPEC_FIELDS: Final[dict[str, tuple[str, Check]]] = {
    # JSON name: (attribute, check)
    "application": ("application", name_of("application", 127)),
    "application_kind": (
        "application_kind",
        one_of("analytics", "latency_critical", "single_node", "batch"),
    ),
    "target": ("target", check_target),
    "input_bytes": ("input_bytes", integer(0, MAX_AMOUNT)),
    "tasks": ("tasks", integer(1, 1_000_000)),
    "units": ("units", integer(1, 100_000, null=True)),
    "duration_seconds": ("duration_s", number(*DURATION_LIMITS_S)),
    "priority": ("priority", integer(-100, 100)),
    "gang": ("gang", optional_flag),
    "policy": ("policy", name_of("policy", 63, null=True)),
    "sample_size": ("sample_size", integer(1, MAX_R, null=True)),
    "guarantee": ("guarantee", check_guarantee),
    "held": ("held", flag),
    "constraints": ("constraints", check_constraints),
    "unit_memory_bytes": ("unit_memory_bytes", integer(0, MAX_AMOUNT)),
    "unit_network_bps": ("unit_network_bps", integer(0, MAX_AMOUNT)),
    "unit_storage_bytes": ("unit_storage_bytes", integer(0, MAX_AMOUNT)),
    "command": ("command", argv),
    "environment": ("environment", environment),
    "working_directory": ("working_directory", directory),
    "files": ("files", files),
    "user": ("user", account),
    "copyable": ("copyable", flag),
    "progress_command": ("progress_command", argv),
    "progress_every_seconds": ("progress_every_s", number(*PROGRESS_LIMITS_S)),
}
_METADATA_FIELDS: Final[dict[str, tuple[str, Check]]] = {
    "name": ("name", name_of("job", 127, null=True)),
    "project": ("project", name_of("project", 63, null=True)),
    "labels": ("labels", labels),
    "annotations": ("annotations", annotations),
    "client_id": ("client_id", name_of("client id", 127, null=True)),
}
_FLAT_FIELDS: Final = _SPEC_FIELDS | _METADATA_FIELDS
_DOCUMENT_FIELDS: Final = frozenset({"metadata", "spec", "client_id"})


def parse_job(data: object, *, at: str = "", limits: JobLimits | None = None) -> JobSpec:
    """Parse one job from JSON.

    Accepts ``{"metadata": {...}, "spec": {...}}`` as returned by the API, and a flat object with
    all fields. Takes about 10 µs.

    Parameters
    ----------
    data : decoded JSON
    at : JSON Pointer of the job inside a larger document, e.g. "/items/3"
    limits : of the installation; None = not checked

    Raises
    ------
    InvalidInputError : lists all problems, each with its JSON Pointer.
    """
    problems: list[FieldProblem] = []
    if not isinstance(data, Mapping):
        raise InvalidInputError([problem(at, "wrong_type", "a job must be an object")])
    if "spec" in data:
        values, spec_at = _read_document(data, at, problems), f"{at}/spec"
    else:
        values, spec_at = read_fields(data, _FLAT_FIELDS, at, problems), at
    values.setdefault("constraints", ANYWHERE)
    complete_command(values, spec_at, problems)
    problems += [
        problem(f"{spec_at}/{name}", "required", f"a job needs its {name}")
        for name in ("application", "target")
        if name not in values
    ]
    check_decision(values, limits, spec_at, problems)
    check_ceiling(values, spec_at, problems)
    if problems:
        raise InvalidInputError(problems)
    if values.get("gang") is None:
        values["gang"] = is_gang_by_default(values["target"].kind)
    return JobSpec(**values)


def is_gang_by_default(kind: str) -> bool:
    """Return whether a job that does not say so starts only with all its units.

    A service that starts with fewer units misses its target for every query, and a job whose
    instructions/s are guaranteed misses it too. Other work progresses with the units it has, and
    gets the rest as they are freed.
    """
    return kind in {TargetKind.THROUGHPUT_LATENCY, TargetKind.IPS}


def parse_changes(data: object) -> dict[str, Any]:
    """Parse a partial job (PATCH) into the attributes of `JobSpec` that change.

    Raises
    ------
    InvalidInputError : lists all problems.
    """
    problems: list[FieldProblem] = []
    if not isinstance(data, Mapping):
        raise InvalidInputError([problem("", "wrong_type", "a change must be an object")])
    if "spec" in data or "metadata" in data:
        values = _read_document(data, "", problems)
    else:
        values = read_fields(data, _FLAT_FIELDS, "", problems)
    if "name" in values and values["name"] is None:
        at = "/metadata/name" if "metadata" in data else "/name"
        problems.append(problem(at, "wrong_type", "must be text: every job has a name"))
    if problems:
        raise InvalidInputError(problems)
    return values


def _read_document(data: Mapping[str, Any], at: str, problems: Problems) -> dict[str, Any]:
    for name in data.keys() - _DOCUMENT_FIELDS:
        problems.append(
            problem(f"{at}/{escape(name)}", "unknown_field", "a job has only metadata and spec")
        )
    values: dict[str, Any] = {}
    for part, fields in (("metadata", _METADATA_FIELDS), ("spec", _SPEC_FIELDS)):
        section = data.get(part, {})
        if isinstance(section, Mapping):
            values |= read_fields(section, fields, f"{at}/{part}", problems)
        else:
            problems.append(problem(f"{at}/{part}", "wrong_type", "must be an object"))
    if "client_id" in data:
        check = _METADATA_FIELDS["client_id"][1]
        values["client_id"] = check(data["client_id"], f"{at}/client_id", problems)
    return values
