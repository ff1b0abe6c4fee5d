"""The verbs of `berth job`: suspend and resume running jobs."""

from argparse import Namespace
from typing import Any, Final

from controlplane.cli.client import BerthClient
from controlplane.cli.errors import Exit
from controlplane.cli.jobs import JOBS, find_job
from controlplane.cli.output import print_result, render
from controlplane.cli.verbs import Verbs

_WORDS: Final = {"requested": "suspending", None: "running"}


def declare(verbs: Verbs) -> None:
    """Declare the verbs and their arguments."""
    job = verbs.noun("job", "suspend and resume running jobs")
    job.add("suspend", suspend).add_argument("jobs", nargs="+", metavar="JOB", help="id or name")
    job.add("resume", resume).add_argument("jobs", nargs="+", metavar="JOB", help="id or name")


def suspend(client: BerthClient, args: Namespace) -> int:
    """Stop the processes of running jobs; they keep their units."""
    return _change(client, args, "suspend")


def resume(client: BerthClient, args: Namespace) -> int:
    """Let the processes of suspended jobs continue."""
    return _change(client, args, "resume")


def _change(client: BerthClient, args: Namespace, verb: str) -> int:
    changed: list[dict[str, Any]] = []
    for key in args.jobs:
        job_id = find_job(client, key)["metadata"]["id"]
        changed.append(client.post(f"{JOBS}{job_id}/{verb}/").body)
    lines = [f"{job['metadata']['id']}  {_word(job['status']['suspension'])}" for job in changed]
    print_result(render(changed, args.output, "\n".join(lines)))
    return Exit.OK


def _word(suspension: str | None) -> str:
    return _WORDS.get(suspension) or str(suspension)
