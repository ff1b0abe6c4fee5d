"""The command of a job: a program to run, with its environment and working directory.

Berth passes the arguments to the program as they are. No shell reads them.
"""

import base64
import re
from collections.abc import Mapping, MutableMapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final
from uuid import UUID

from apps.common.core.errors import FieldProblem, InvalidInputError
from apps.workloads.core import archives
from apps.workloads.core.archives import Archive, ArchiveError
from apps.workloads.core.checks import Problems, escape, problem
from apps.workloads.core.targets import BestEffort, Target, TargetKind

MAX_ARGUMENTS: Final = 1000
MAX_VARIABLES: Final = 500
MAX_BYTES: Final = 65_536  # of all arguments, and of all variables
MAX_PATH: Final = 4096
MAX_FILES: Final = 4 * (archives.MAX_BYTES // 3 + 1)  # characters of an archive in base64
RESERVED: Final = "BERTH_"  # variables that the backend sets
_DIGEST: Final = re.compile(archives.DIGEST + "[0-9a-f]{64}")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")
_TARGETS: Final = frozenset({TargetKind.BEST_EFFORT, TargetKind.COMPLETION_TIME})
_INTERPRETER: Final = re.compile(r"(python|perl|ruby|node|bash|dash|sh)[0-9.]*")
_ACCOUNT: Final = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
ROOT: Final = "root"
PROGRESS_EVERY_S: Final = 30.0
PROGRESS_LIMITS_S: Final = (1.0, 3600.0)
_OF_COMMANDS: Final = (
    *("environment", "working_directory", "files", "user", "copyable", "progress_command"),
)
MAX_APPLICATION: Final = 127  # characters of a name
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9._+-]+")


def argv(value: object, pointer: str, problems: Problems) -> tuple[str, ...] | None:
    """Check a command: a program and its arguments; null means none."""
    if value is None:
        return None
    if not isinstance(value, list | tuple) or not all(isinstance(part, str) for part in value):
        detail = 'must be a list of strings, such as ["sleep", "5"]; no shell reads it'
        problems.append(problem(pointer, "wrong_type", detail))
        return None
    if not 1 <= len(value) <= MAX_ARGUMENTS:
        detail = f"must have 1 to {MAX_ARGUMENTS} strings, not {len(value)}"
        problems.append(problem(pointer, "wrong_count", detail))
    elif not value[0]:
        problems.append(problem(f"{pointer}/0", "required", "must name the program"))
    elif _is_storable(value, pointer, problems):
        return tuple(value)
    return None


def environment(value: object, pointer: str, problems: Problems) -> dict[str, str] | None:
    """Check the environment variables of a command."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        problems.append(problem(pointer, "wrong_type", "must be an object of strings"))
        return None
    if len(value) > MAX_VARIABLES:
        detail = f"must have at most {MAX_VARIABLES} entries"
        problems.append(problem(pointer, "too_many", detail))
        return None
    found = len(problems)
    for name, text in value.items():
        at = f"{pointer}/{escape(name)}"
        if _VARIABLE.fullmatch(name) is None:
            detail = "a variable's name has letters, digits and _, and begins with no digit"
            problems.append(problem(at, "bad_characters", detail))
        elif name.startswith(RESERVED):
            detail = f"Berth sets the variables that begin with {RESERVED}"
            problems.append(problem(at, "reserved", detail))
        if not isinstance(text, str):
            problems.append(problem(at, "wrong_type", f"must be a string, not {text!r:.60}"))
    if len(problems) > found or not _is_storable(list(value.values()), pointer, problems):
        return None
    return dict(value)


def directory(value: object, pointer: str, problems: Problems) -> str | None:
    """Check the working directory of a command; null means a new, empty one."""
    if value is None:
        return None
    if not isinstance(value, str):
        problems.append(problem(pointer, "wrong_type", f"must be a path, not {value!r:.60}"))
    elif not value.startswith("/") or len(value) > MAX_PATH or not value.isprintable():
        detail = f"must be an absolute path of at most {MAX_PATH} printable characters"
        problems.append(problem(pointer, "bad_path", detail))
    else:
        return value
    return None


def account(value: object, pointer: str, problems: Problems) -> str | None:
    """Check the account that runs a command; null means that of the agent's configuration."""
    if value is None:
        return None
    if not isinstance(value, str) or _ACCOUNT.fullmatch(value) is None:
        detail = f"must be the name of an account: a-z, 0-9, _ and -, not {value!r:.60}"
        problems.append(problem(pointer, "bad_characters", detail))
    elif value == ROOT:
        problems.append(problem(pointer, "reserved", "no command of a job runs as root"))
    else:
        return value
    return None


def files(value: object, pointer: str, problems: Problems) -> Archive | None:
    """Check an archive in base64, or the digest of one that is stored; null means none."""
    if value is None:
        return None
    if not isinstance(value, str):
        detail = f"must be a tar file in base64, or its sha256:..., not {value!r:.60}"
        problems.append(problem(pointer, "wrong_type", detail))
        return None
    found = _archive(value)
    if isinstance(found, Archive):
        return found
    problems.append(problem(pointer, "bad_archive", found))
    return None


@lru_cache(maxsize=1)  # the items of a batch may share one
def _archive(text: str) -> Archive | str:
    """Return the archive that a text holds, or what is wrong with it."""
    if text.startswith(archives.DIGEST):
        is_digest = _DIGEST.fullmatch(text) is not None
        detail = f"must be sha256: and 64 hexadecimal digits, not {text!r:.90}"
        return Archive(text) if is_digest else detail
    if len(text) > MAX_FILES:
        return f"must have at most {MAX_FILES:,} characters of base64, not {len(text):,}"
    try:
        data = base64.b64decode(text, validate=True)
        archives.members(data)
    except ArchiveError as error:
        return str(error)
    except ValueError as error:  # binascii.Error, or a character that is not ASCII
        return f"must be base64: {error}"
    return Archive(archives.digest_of(data), data)


def _is_storable(texts: list[str] | tuple[str, ...], pointer: str, problems: Problems) -> bool:
    try:
        size = sum(len(text.encode()) + 1 for text in texts)
    except UnicodeEncodeError:
        problems.append(problem(pointer, "bad_characters", "must be valid Unicode"))
        return False
    if any("\0" in text for text in texts):
        problems.append(problem(pointer, "bad_characters", "must not contain U+0000"))
    elif size > MAX_BYTES:
        detail = f"must take at most {MAX_BYTES:,} bytes, not {size:,}"
        problems.append(problem(pointer, "too_long", detail))
    else:
        return True
    return False


def application_of(command: tuple[str, ...]) -> str:
    """Return the name of a command's application: its program, or the script that it runs."""
    names = [part.rstrip("/").rsplit("/", 1)[-1] for part in command[:2]]
    is_script = (
        len(names) > 1 and _INTERPRETER.fullmatch(names[0]) and not command[1].startswith("-")
    )
    name = _NOT_IN_NAMES.sub("-", names[1] if is_script else names[0]).strip("._+-")[:127]
    return name.rstrip("._+-") or "command"


def complete_command(values: MutableMapping[str, Any], at: str, problems: Problems) -> None:
    """Derive what a job with a command need not say, and check what contradicts a command.

    It runs as one process group: on one server, with all its units from the start.
    """
    command = values.get("command")
    if command is None:
        for name in _OF_COMMANDS:
            if values.get(name):
                detail = "belongs to a command, and this job has none"
                problems.append(problem(f"{at}/{name}", "contradiction", detail))
        _check_progress(values, at, problems)
        values["command"] = ()
        return
    values.setdefault("application", application_of(command))
    values.setdefault("target", BestEffort())
    if values["target"] is not None and values["target"].kind not in _TARGETS:
        problems.append(_wrong_target(at))
    if values.get("gang") is False:
        detail = "a command starts with all its units: must be true or null"
        problems.append(problem(f"{at}/gang", "contradiction", detail))
    for name, none in (("tasks", 1), ("input_bytes", 0)):
        if values.get(name, none) not in {none, None}:
            detail = "a command divides its own work; omit it"
            problems.append(problem(f"{at}/{name}", "contradiction", detail))
    _check_directory(values, at, problems)
    _check_progress(values, at, problems)
    constraints = values.get("constraints")
    if constraints is not None and (
        constraints.locality not in {None, "server"} or constraints.spread
    ):
        detail = "a command runs on one server: locality must be server or null, spread null"
        problems.append(problem(f"{at}/constraints", "contradiction", detail))
    values["gang"], values["units"] = True, values.get("units") or 1
    if constraints is not None:
        values["constraints"] = replace(constraints, locality="server")


def _check_directory(values: Mapping[str, Any], at: str, problems: Problems) -> None:
    if values.get("files") and values.get("working_directory"):
        detail = "must be omitted with files: they are unpacked into a new directory"
        problems.append(problem(f"{at}/working_directory", "contradiction", detail))


def _check_progress(values: MutableMapping[str, Any], at: str, problems: Problems) -> None:
    """Complete how often the progress command runs."""
    every_s = values.get("progress_every_s")
    if values.get("progress_command") is not None:
        values["progress_every_s"] = PROGRESS_EVERY_S if every_s is None else every_s
    elif every_s is not None:
        detail = "belongs to a progress_command, and this job has none"
        problems.append(problem(f"{at}/progress_every_seconds", "contradiction", detail))


def require_target_of_command(target: Target) -> None:
    """Check that a command can have a target.

    Raises
    ------
    InvalidInputError : it cannot.
    """
    if target.kind not in _TARGETS:
        raise InvalidInputError([_wrong_target("")])


def _wrong_target(at: str) -> FieldProblem:
    detail = f"of a command must be one of {', '.join(sorted(_TARGETS))}"
    return problem(f"{at}/target", "contradiction", detail)


def owned_application(project: str, application: str) -> str:
    """Return the name of an application that only one project profiles, such as "team:train"."""
    prefix = owner_prefix(project)
    if application.startswith(prefix):
        return application
    return f"{prefix}{application}"[:MAX_APPLICATION].rstrip("._:/+-")


def orphaned_application(project: str, application: str, *, key: UUID) -> str:
    """Return the name of an application whose project is deleted; no project can own it.

    Parameters
    ----------
    project : the deleted project, whose prefix ``application`` has
    key : id of the application, which makes the name unique
    """
    rest = application.removeprefix(owner_prefix(project))
    name = f"deleted.{key.hex}:{rest}"  # names of projects have no dot
    return name[:MAX_APPLICATION].rstrip("._:/+-")


def owner_prefix(project: str) -> str:
    """Return how the names of the applications begin that only one project profiles."""
    return f"{project}:"  # names of projects have no colon
