"""``sampling_quality``: measure whether the quality of sampled units follows x^R."""

import json
from argparse import ArgumentParser, ArgumentTypeError
from dataclasses import replace
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from apps.scheduling.core.registry import POLICIES, make
from apps.testbed.core.sampling_quality import SamplingExperiment, SamplingQuality, measure
from apps.testbed.services.sampling_checks import save_sampling_check

LIMIT = 0.05  # max distance between measured and analytic CDF


class Command(BaseCommand):
    """Measure the ranks of a policy's choices on a loaded cluster and compare them with x^R."""

    help = "Measure whether the quality of sampled units follows x^R (Tarcil, figure 4)."
    requires_system_checks = ()  # needs no database unless --save is given

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        defaults = SamplingExperiment()
        parser.add_argument("--servers", type=int, default=defaults.servers)
        parser.add_argument("--sizes", type=_sizes, default=(8, 16, 32), help="e.g. 8,16,32")
        parser.add_argument("--decisions", type=int, default=defaults.decisions)
        parser.add_argument("--load", type=float, default=defaults.load)
        parser.add_argument("--sync", type=float, default=defaults.sync_s, help="cluster seconds")
        parser.add_argument("--agents", type=int, default=defaults.agents)
        parser.add_argument("--seed", type=int, default=defaults.seed)
        parser.add_argument("--policy", choices=sorted(POLICIES), default="tarcil")
        parser.add_argument("--json", action="store_true", help="print one JSON object")
        parser.add_argument(
            "--save", action="store_true", help="store the result for the dashboard"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Measure every size, print the results, and fail if one exceeds the limit."""
        try:
            results = [
                measure(_check(options, size), make(options["policy"]))
                for size in options["sizes"]
            ]
        except ValueError as error:
            raise CommandError(str(error)) from error
        if options["save"]:
            for quality in results:
                save_sampling_check(quality)
        self.stdout.write(_as_json(results) if options["json"] else _as_table(results))
        exceeding = [str(q.check.size) for q in results if q.ks_distance > LIMIT]
        if exceeding:
            raise CommandError(
                f"the distance to x^R exceeds {LIMIT} at R = {', '.join(exceeding)}"
            )


def _sizes(text: str) -> tuple[int, ...]:
    try:
        sizes = tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise ArgumentTypeError(
            f"sizes must be whole numbers like 8,16,32, got {text!r}"
        ) from error
    if min(sizes) < 1:
        raise ArgumentTypeError(f"sizes must be at least 1, got {text!r}")
    return sizes


def _check(options: dict[str, Any], size: int) -> SamplingExperiment:
    return replace(
        SamplingExperiment(),
        servers=options["servers"],
        size=size,
        decisions=options["decisions"],
        load=options["load"],
        sync_s=options["sync"],
        agents=options["agents"],
        seed=options["seed"],
    )


def _as_table(results: list[SamplingQuality]) -> str:
    lines = [
        f"{'R':>4} {'decisions':>10} {'eligible':>9} {'load':>6} {'conflicts':>10} "
        f"{'to x^R':>8} {'exact':>8} {'between':>8}"
    ]
    lines += [
        f"{q.check.size:>4} {len(q.ranks):>10,} {q.eligible.mean():>9.0f} {q.load:>6.1%} "
        f"{q.conflict_share:>10.1%} {q.ks_distance:>8.4f} {q.ks_discrete:>8.4f} "
        f"{q.ks_between:>8.4f}"
        for q in results
    ]
    lines.append("")
    lines.append(f"to x^R   max distance of the CDFs at the possible ranks; limit {LIMIT}")
    lines.append("exact    the same, to R draws without replacement")
    lines.append("between  to x^R anywhere, including between possible ranks")
    return "\n".join(lines)


def _as_json(results: list[SamplingQuality]) -> str:
    rows = [
        {
            "size": q.check.size,
            "servers": q.check.servers,
            "decisions": len(q.ranks),
            "mean_eligible": float(q.eligible.mean()),
            "load": q.load,
            "conflict_share": q.conflict_share,
            "ks_distance": q.ks_distance,
            "ks_discrete": q.ks_discrete,
            "ks_between": q.ks_between,
        }
        for q in results
    ]
    return json.dumps({"limit": LIMIT, "checks": rows})
