"""``run_replay``: submit a trace or a generated day through the REST API."""

import hashlib
import json
import os
import sys
from argparse import ArgumentParser, ArgumentTypeError
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO, cast

import numpy as np
from django.core.management.base import BaseCommand, CommandError

from apps.common.core.errors import ControlPlaneError
from apps.common.core.ids import uuid7
from apps.testbed.core.generator import FB2009_JOBS, FB2009_SEED, generate_day
from apps.testbed.core.jobs import RULE_VERSION, slug
from apps.testbed.core.replay_plan import plan_replay
from apps.testbed.core.replay_state import ReplayState, continues
from apps.testbed.core.traces import Trace
from apps.testbed.files import read_submissions, trace_digest
from apps.testbed.management.replay.api_client import ApiClient, ApiError
from apps.testbed.management.replay.completion import await_end
from apps.testbed.management.replay.progress_line import ReplayProgressLine
from apps.testbed.management.replay.state_file import load_state, save_state, state_path
from apps.testbed.management.replay.submission import RemoteClock, Replay, cluster_units


@dataclass(frozen=True, slots=True)
class ReplaySource:
    """Source of the replayed jobs: a trace file or a generated day."""

    path: Path | None
    jobs: int
    seed: int

    @property
    def name(self) -> str:
        """Name for messages and the state file."""
        return str(self.path.resolve()) if self.path else f"generated day of {self.jobs} jobs"

    def digest(self, *, services: float | None) -> str:
        """Digest of everything that determines the plan except the cluster size."""
        content = trace_digest(self.path) if self.path is not None else f"{self.jobs} jobs"
        text = json.dumps([RULE_VERSION, content, self.seed, services])
        return hashlib.sha256(text.encode()).hexdigest()

    def read(self) -> Trace:
        """Read or generate the jobs."""
        if self.path is not None:
            return read_submissions(self.path)
        return generate_day(self.jobs, np.random.default_rng(self.seed))


class Command(BaseCommand):
    """Submit jobs as they become due in cluster time; resume after a crash."""

    help = "Replay a trace (SWIM or Google 2011, may be gzipped) or a generated Facebook-like day."
    requires_system_checks = ()  # a client: it needs the web process, not the database

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        add = parser.add_argument
        add("--trace", type=Path, help="file to replay; without it a day is generated")
        add("--jobs", type=int, default=FB2009_JOBS, help="jobs of the generated day")
        add("--seed", type=int, default=FB2009_SEED)
        add(
            "--services",
            type=_share,
            default=None,
            help="share of the units used by long-running services, 0 to 1 (default: fill up to"
            " a nominal load of 60 %%); 0 for none",
        )
        add("--project", help="project to submit to (default: your only one)")
        add("--units", type=int, help="units of the cluster (default: read from the server)")
        add("--again", action="store_true", help="start a new replay after a finished one")
        add("--wait", action="store_true", help="wait until every job of the trace has ended")

    def handle(self, *args: Any, **options: Any) -> None:
        """Replay."""
        line = ReplayProgressLine(cast("TextIO", self.stdout))
        try:
            self._replay(options, line)
        except (ControlPlaneError, OSError, ValueError) as error:
            line.end()
            raise CommandError(str(error)) from error
        except KeyboardInterrupt:
            line.end()
            self.stdout.write("Stopped. Run the same command again to resume.")
            sys.exit(130)

    def _replay(self, options: dict[str, Any], line: ReplayProgressLine) -> None:
        source = ReplaySource(options["trace"], options["jobs"], options["seed"])
        trace = source.read()
        for note in trace.notes:
            self.stdout.write(f"{source.name}: {note}")
        with _client(line) as api:
            self._submit(api, source, trace, options, line)

    def _submit(
        self,
        api: ApiClient,
        source: ReplaySource,
        trace: Trace,
        options: dict[str, Any],
        line: ReplayProgressLine,
    ) -> None:
        clock = RemoteClock(api)
        state = self._state(source, options, api, clock)
        plan = plan_replay(trace, units=state.units, services=state.services, seed=state.seed)
        if state.next == len(plan):
            line.say(f"All {len(plan):,} jobs have been submitted. Use --again for a new replay.")
        replay = Replay(
            api,
            clock,
            plan,
            state,
            state_path(),
            project=options["project"],
            on_progress=lambda now, late_s: line.show(now, plan, late_s),
            on_rejected=lambda reason: line.say(f"Refused by the server: {reason}"),
        )
        end = replay.run()
        line.say(f"{end.accepted:,} of {len(plan):,} jobs submitted, {end.rejected:,} refused.")
        if options["wait"]:
            await_end(api, trace=slug(trace.name), line=line)
        if end.rejected:
            raise CommandError(f"{end.rejected} jobs were refused; see above.", returncode=3)

    def _state(
        self, source: ReplaySource, options: dict[str, Any], api: ApiClient, clock: RemoteClock
    ) -> ReplayState:
        """Load the state to resume from, or create a new one."""
        digest = source.digest(services=options["services"])
        saved = None if options["again"] else load_state(state_path())
        now_s = clock.now()
        if saved is not None and continues(saved, digest=digest, now_s=now_s, speed=clock.speed):
            self.stdout.write(f"Resuming after {saved.next:,} jobs of {saved.trace}.")
            return saved
        state = ReplayState(
            identity=uuid7().hex,
            digest=digest,
            trace=source.name,
            units=options["units"] or cluster_units(api),
            services=options["services"],
            seed=source.seed,
            anchor_s=now_s,
        )
        save_state(state_path(), state)
        return state


def _client(line: ReplayProgressLine) -> ApiClient:
    """Return a client for BERTH_URL and BERTH_TOKEN.

    Raises
    ------
    ApiError : BERTH_TOKEN is not set.
    """
    token = os.environ.get("BERTH_TOKEN", "")
    if not token:
        raise ApiError("BERTH_TOKEN is not set; set it to an API token that may submit jobs.")
    url = os.environ.get("BERTH_URL", "http://127.0.0.1:8000")
    return ApiClient(url, token, on_away=lambda trouble: line.hint(f"waiting: {trouble}"))


def _share(text: str) -> float:
    value = float(text)
    if not 0.0 <= value <= 1.0:
        raise ArgumentTypeError(f"must be from 0 to 1, not {text}")
    return value
