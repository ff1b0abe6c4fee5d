"""``verify_replay``: check in the database that a replay lost, duplicated or blocked no job."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from apps.testbed.core.replay_state import ReplayState
from apps.testbed.core.traces import TraceError
from apps.testbed.files import read_submissions
from apps.testbed.management.replay.state_file import load_state, state_path
from apps.testbed.selectors.replay import (
    Finding,
    ReplayCounts,
    allocation_counts,
    check_findings,
    one_snapshot,
    replay_counts,
)


class Command(BaseCommand):
    """Compare the counts, run every consistency check, and fail with a list of violations."""

    help = "Check in the database that a replay lost, duplicated or blocked no job."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        add = parser.add_argument
        add("--trace", type=Path, help="compare with the number of jobs in this file")
        add("--state", type=Path, default=None, help="state file of the replay (replay.json)")
        add("--grace", type=float, default=60.0, help="seconds an expired lease may stay (60)")
        add(
            "--complete",
            action="store_true",
            help="require that every job of the trace was submitted and has ended",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the checks and print the results."""
        path = options["state"] or state_path()
        try:
            before = load_state(path)
            jobs = len(read_submissions(options["trace"])) if options["trace"] else None
            with one_snapshot():
                counts = replay_counts(before.identity) if before is not None else None
                allocations = allocation_counts()
                findings = check_findings(grace_s=options["grace"])
            after = load_state(path)
        except (TraceError, OSError, ValueError) as error:
            raise CommandError(str(error)) from error
        broken = self._report_findings(findings)
        if before is None or after is None or counts is None:
            if options["complete"] or jobs is not None:
                broken.append(f"there is no replay to check: {path} does not exist")
        else:
            self._report_counts(before, counts, allocations)
            broken += count_violations(
                (before, after), counts, jobs, is_complete=options["complete"]
            )
        if broken:
            raise CommandError(f"{len(broken)} checks failed:\n  " + "\n  ".join(broken))
        self.stdout.write("All checks passed.")

    def _report_counts(
        self, state: ReplayState, counts: ReplayCounts, allocations: tuple[int, int]
    ) -> None:
        rows = [
            ("accepted by the API", state.accepted),
            ("rows in the database", counts.rows),
            ("with a submission event", counts.events),
            ("ended, by state", counts.ended),
            ("ended, by events", counts.ended_events),
            ("of the trace", counts.trace_rows),
            ("of the trace ended", counts.trace_ended),
            ("allocations made", allocations[0]),
            ("allocations released", allocations[1]),
        ]
        self.stdout.write(f"Replay of {state.trace}")
        for label, number in rows:
            self.stdout.write(f"  {label:56}{number:>10,}")
        by_state = ", ".join(f"{n:,} {s}" for s, n in sorted(counts.trace_by_state.items()))
        self.stdout.write(f"  trace jobs by state: {by_state or 'none'}")

    def _report_findings(self, findings: list[Finding]) -> list[str]:
        for finding in findings:
            mark = "ok" if not finding.violations else f"{finding.violations} FAILED"
            self.stdout.write(f"  {finding.check:56}{mark:>10}")
        return [
            f"{finding.check}: {finding.violations} times, e.g. {'; '.join(finding.examples)}"
            for finding in findings
            if finding.violations
        ]


def count_violations(
    states: tuple[ReplayState, ReplayState],
    counts: ReplayCounts,
    jobs: int | None,
    *,
    is_complete: bool,
) -> list[str]:
    """List inconsistent counts, one sentence each.

    Parameters
    ----------
    states : state of the replay before and after the database was read; it may still be running
    jobs : number of jobs in the trace file, or None
    is_complete : require that all jobs were submitted and every job of the trace has ended
    """
    before, after = states
    # The request in flight at a crash may have been executed without being counted.
    max_rows = after.accepted + after.sending
    broken = []
    if not before.accepted <= counts.rows <= max_rows:
        broken.append(f"the API accepted {before.accepted} jobs, the database has {counts.rows}")
    if counts.events != counts.rows:
        broken.append(f"{counts.rows} jobs, but {counts.events} submission events")
    if counts.ended_events != counts.ended:
        broken.append(f"{counts.ended} jobs ended, but {counts.ended_events} have an event")
    if after.rejected:
        broken.append(f"the API refused {after.rejected} jobs")
    if is_complete and counts.trace_ended != counts.trace_rows:
        missing = counts.trace_rows - counts.trace_ended
        broken.append(f"{missing} jobs of the trace have not ended")
    if is_complete and after.sending:
        broken.append("the replay was interrupted; run it again to finish it")
    if jobs is not None and counts.trace_rows != jobs:
        broken.append(f"the file has {jobs} jobs, the database has {counts.trace_rows} of them")
    return broken
