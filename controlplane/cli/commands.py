"""The verbs of `berth` for jobs with a command: run one and follow it, and read its output."""

import sys
from argparse import Namespace
from dataclasses import dataclass, field
from typing import Final

from controlplane.cli.client import BerthClient
from controlplane.cli.errors import CliError, Exit
from controlplane.cli.job_options import add_job_options, read_job
from controlplane.cli.jobs import JOBS, find_job
from controlplane.cli.output import print_message
from controlplane.cli.verbs import Verbs

WAIT_S: Final = 5  # of one long poll
SIGNALLED: Final = 128  # added to the number of a signal, as a shell does


def declare(verbs: Verbs) -> None:
    """Declare the verbs and their arguments."""
    run_parser = verbs.add("run", run)
    add_job_options(run_parser)
    run_parser.add_argument("--key", help="Idempotency-Key, as for submit")
    parser = verbs.add("logs", logs)
    parser.add_argument("job", help="id or name")
    parser.add_argument("-f", "--follow", action="store_true", help="until the job ends")
    parser.add_argument("--stream", choices=("stdout", "stderr"), help="only this one")


@dataclass(slots=True)
class Follower:
    """Copies the output of a job to this process's own streams.

    Attributes
    ----------
    attempt : launch that the output is of; the next launch starts from the beginning
    """

    client: BerthClient
    job_id: str
    streams: tuple[str, ...] = ("stdout", "stderr")
    attempt: str = ""
    ends: dict[str, int] = field(default_factory=dict)

    def copy(self, *, wait_s: int = 0) -> bool:
        """Copy what is new; returns True if the job has ended and everything is copied."""
        is_over = True
        for stream in self.streams:
            while True:
                count, has_ended = self._copy_part(stream, wait_s=wait_s)
                wait_s = 0
                if not count:
                    break
            is_over = is_over and has_ended
        return is_over

    def _copy_part(self, stream: str, *, wait_s: int) -> tuple[int, bool]:
        start = self.ends.get(stream, 0)
        data, headers = self.client.get_bytes(
            f"{JOBS}{self.job_id}/output/",
            {"stream": stream, "start": str(start), "wait": str(wait_s)},
        )
        attempt = headers["berth-output-attempt"]
        if attempt != self.attempt:
            is_first, self.attempt = self.attempt in {"", "0"}, attempt
            if not is_first:
                print_message(
                    f"berth: launch {attempt} of the job; its output starts from the beginning"
                )
                self.ends.clear()
                return 1, False
        begin = int(headers["berth-output-start"])
        if data and begin > start:
            print_message(f"berth: {begin - start} bytes of {stream} were deleted")
        self.ends[stream] = int(headers["berth-output-end"]) if data else start
        out = sys.stdout if stream == "stdout" else sys.stderr
        out.flush()
        out.buffer.write(data)  # as it is: a part may end inside a character
        out.flush()
        return len(data), headers["berth-job-over"] == "true"


def run(client: BerthClient, args: Namespace) -> int:
    """Submit a command, copy its output, and return its exit code; Ctrl-C cancels it."""
    if not args.command and args.file is None:
        raise CliError("no command", code=Exit.USAGE, next_command="berth run -- COMMAND")
    headers = {"Idempotency-Key": args.key} if args.key else {}
    job = client.call("POST", JOBS, body=read_job(args), headers=headers).body
    job_id = str(job["metadata"]["id"])
    print_message(f"berth: job {job_id}")
    try:
        follower = Follower(client, job_id)
        while not follower.copy(wait_s=WAIT_S):
            pass
    except KeyboardInterrupt:
        client.post(f"{JOBS}{job_id}/cancel/")
        raise
    return _exit_code(client, job_id)


def _exit_code(client: BerthClient, job_id: str) -> int:
    """Return the exit code of a job's command; without one, say why the job has ended."""
    status = client.get(f"{JOBS}{job_id}/")["status"]
    code, reason = status["exit_code"], status["reason"]
    if status["state"] == "succeeded":
        return Exit.OK
    if reason is not None:
        print_message(f"berth: the job has {status['state']}: {reason['message']}".rstrip(": "))
    if not code:  # one that was stopped may end with 0
        return Exit.FAILED
    return int(code) if code >= 0 else SIGNALLED - int(code)


def logs(client: BerthClient, args: Namespace) -> int:
    """Show the output of a job's command."""
    job_id = find_job(client, args.job)["metadata"]["id"]
    follower = Follower(client, job_id, (args.stream,) if args.stream else ("stdout", "stderr"))
    follower.copy()
    while args.follow and not follower.copy(wait_s=WAIT_S):
        pass
    return Exit.OK
