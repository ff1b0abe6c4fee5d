"""A random storm: clients, agents, two emulators, sweeps, plans and pruning at the same time.

Starts an embedded PostgreSQL of its own. Emulators die at random, servers go down, jobs are
cancelled, migrated and deleted. The storm must leave no deadlock that reached a client, no lost
job and no failed check; see docs/benchmarks.md.

    ./dev bench storm --minutes 10
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks._instance import PROJECT
from controlplane.embedded.postgres import drop_data, plan_cluster
from controlplane.embedded.servers import running_servers


def main() -> int:
    """Run the storm; return 0 if nothing happened that must not."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=12)
    options = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings.dev")
    with (
        tempfile.TemporaryDirectory(prefix="berth-storm-") as home,
        tempfile.TemporaryDirectory(prefix="berth-sockets-") as sockets,
    ):
        cluster = plan_cluster(Path(home))
        try:
            with running_servers(
                cluster, Path(sockets), lambda name: Path(home) / f"{name}.log", is_durable=True
            ) as servers:
                os.environ["DATABASE_URL"] = servers.database_url
                os.environ["REDIS_URL"] = servers.redis_url
                return _storm(minutes=options.minutes, seed=options.seed)
        finally:
            drop_data(cluster)


def _storm(*, minutes: float, seed: int) -> int:
    import django  # noqa: PLC0415 - after the database has an address

    subprocess.run(
        [sys.executable, "manage.py", "migrate", "--verbosity", "0"], cwd=PROJECT, check=True
    )
    django.setup()
    from benchmarks._storm import Storm  # noqa: PLC0415

    report = Storm(seed=seed).run(60.0 * minutes)
    _say("actions: " + ", ".join(f"{n:,} {name}" for name, n in sorted(report.done.items())))
    _say("answers: " + ", ".join(f"{n:,} x {code}" for code, n in sorted(report.answers.items())))
    _say("jobs:    " + ", ".join(f"{n:,} {state}" for state, n in sorted(report.states.items())))
    _say(f"transactions that ran again: {report.retries or 'none'}")
    for name, found in (
        ("deadlocks that reached a client", report.deadlocks),
        ("other errors", report.errors),
        ("violations", report.violations),
    ):
        _say(f"{name}: {len(found)}")
        for text in found[:5]:
            _say(f"    {text}")
    return 0 if report.is_clean else 1


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")


if __name__ == "__main__":
    sys.exit(main())
