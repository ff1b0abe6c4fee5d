"""The verbs of `berth job`: change jobs, suspend and resume them, and run them again."""

from argparse import Namespace
from collections.abc import Callable, Mapping
from typing import Any, Final
from uuid import uuid4

from controlplane.cli.client import BerthClient
from controlplane.cli.errors import CliError, Exit
from controlplane.cli.job_options import add_target, target_of
from controlplane.cli.jobs import JOBS, find_job
from controlplane.cli.output import print_result, render
from controlplane.cli.verbs import Verbs

_Word = Callable[[Mapping[str, Any]], str]
_WORDS: Final = {"requested": "suspending", None: "running"}


def declare(verbs: Verbs) -> None:
    """Declare the verbs and their arguments."""
    job = verbs.noun("job", "change jobs, suspend and resume them, and run them again")
    for name, run in _VERBS.items():
        job.add(name, run).add_argument("jobs", nargs="+", metavar="JOB", help="id or name")
    parser = job.add("retarget", retarget)
    parser.add_argument("job", metavar="JOB", help="id or name")
    add_target(parser)
    parser.add_argument("--priority", type=int, help="-100 to 100; higher is more urgent")


def suspend(client: BerthClient, args: Namespace) -> int:
    """Stop the processes of running jobs; they keep their units."""
    return _change(client, args, "suspend", _suspension)


def resume(client: BerthClient, args: Namespace) -> int:
    """Let the processes of suspended jobs continue."""
    return _change(client, args, "resume", _suspension)


def hold(client: BerthClient, args: Namespace) -> int:
    """Keep waiting jobs out of placement until they are released."""
    return _change(client, args, "hold", lambda _: "on hold")


def release(client: BerthClient, args: Namespace) -> int:
    """Let held jobs be placed again."""
    return _change(client, args, "release", lambda _: "released")


def rerun(client: BerthClient, args: Namespace) -> int:
    """Submit jobs again; prints the ids of the new jobs."""
    return _change(client, args, "rerun", lambda _: "submitted")


def retarget(client: BerthClient, args: Namespace) -> int:
    """Change the target or the priority of a job."""
    target = target_of(args)
    wanted = {"target": target, "priority": args.priority}
    changes = {name: value for name, value in wanted.items() if value is not None}
    if not changes:
        raise CliError("name a target or a priority", code=Exit.USAGE)
    job_id = find_job(client, args.job)["metadata"]["id"]
    job = client.call("PATCH", f"{JOBS}{job_id}/", body=changes).body
    print_result(render(job, args.output, f"{job_id}  changed"))
    return Exit.OK


_VERBS: Final = {
    "suspend": suspend,
    "resume": resume,
    "hold": hold,
    "release": release,
    "rerun": rerun,
}


def _change(client: BerthClient, args: Namespace, verb: str, word: _Word) -> int:
    changed: list[dict[str, Any]] = []
    for key in args.jobs:
        job_id = find_job(client, key)["metadata"]["id"]
        headers = {"Idempotency-Key": uuid4().hex} if verb == "rerun" else {}
        changed.append(client.call("POST", f"{JOBS}{job_id}/{verb}/", headers=headers).body)
    lines = [f"{job['metadata']['id']}  {word(job)}" for job in changed]
    print_result(render(changed, args.output, "\n".join(lines)))
    return Exit.OK


def _suspension(job: Mapping[str, Any]) -> str:
    suspension = job["status"]["suspension"]
    return _WORDS.get(suspension) or str(suspension)
