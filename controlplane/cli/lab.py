"""berth lab: repeat a comparison of the Lab on this machine, without a server."""

import json
import sys
import time
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from controlplane.cli.errors import CliError, Exit
from controlplane.cli.interactive import ProgressLine
from controlplane.cli.output import print_result, render
from controlplane.cli.verbs import Verbs

if TYPE_CHECKING:
    from apps.testbed.core.lab import LabPlan, LabSetting
    from apps.testbed.core.lab_bundle import Rerun
    from apps.testbed.core.lab_results import RunRecord


def declare(verbs: Verbs) -> None:
    """Declare the verb and its arguments."""
    lab = verbs.noun("lab", "repeat comparisons of the Lab")
    parser = lab.add_offline("run", run_bundle, __doc__)
    parser.add_argument("bundle", help="JSON file, from GET /api/v1/comparisons/ID/bundle/")
    parser.add_argument("--baseline", metavar="SETTING", help="compare with this setting")


def run_bundle(args: Namespace) -> int:
    """Run a bundle again and compare the records bit for bit; needs no server."""
    # imported here, as numpy and the kernels are slow to import
    from apps.testbed.core.lab_bundle import plan_of_bundle, rerun  # noqa: PLC0415
    from apps.testbed.core.lab_results import compared  # noqa: PLC0415
    from apps.testbed.core.lab_runs import run_setting  # noqa: PLC0415
    from apps.testbed.core.replay.errors import ReplayError  # noqa: PLC0415

    bundle = _read(args.bundle)
    line, began, made = ProgressLine(), time.monotonic(), list[str]()

    def run(plan: "LabPlan", setting: "LabSetting", seed: int) -> "RunRecord":
        made.append(setting.name)
        most = "" if plan.first_seeds is None else "at most "
        text = f"run {len(made)} of {most}{len(plan.runs)}: {setting.name}, seed {seed}"
        line.show(time.monotonic() - began, text)
        return run_setting(plan, setting, seed).record

    try:
        if args.baseline is not None:  # an error must not appear after hours of runs
            _with_baseline(plan_of_bundle(bundle), args.baseline)
        again = rerun(bundle, run)
    except ReplayError as error:
        raise CliError(f"{args.bundle}: {error}") from error
    finally:
        line.clear()
    result = compared(_with_baseline(again.plan, args.baseline), again.records)
    output = {
        "digest": again.plan.digest,
        "versions": bundle["versions"],
        "runs": len(again.records),
        "compared": again.compared,
        "differing": [{"setting": setting, "seed": seed} for setting, seed in again.differing],
        "records": again.records,
        "result": result,
    }
    text = "\n".join([result["verdict"], *_sentences(again)])
    print_result(render(output, args.output, text))
    return Exit.FAILED if again.differing else Exit.OK


def _with_baseline(plan: "LabPlan", baseline: str | None) -> "LabPlan":
    accepted = [setting.name for setting in plan.settings if setting.name != plan.bound]
    if baseline is None:
        return plan
    if baseline not in accepted:
        names = ", ".join(accepted)
        raise CliError(f"--baseline must be one of {names}, not {baseline!r}", code=Exit.USAGE)
    return replace(plan, baseline=baseline)


def _sentences(again: "Rerun") -> list[str]:
    runs = f"{len(again.records)} runs"
    if not again.compared:
        return [f"{runs}; the bundle has no results to compare with."]
    if not again.differing:
        return [f"{runs}; all {again.compared} records of the bundle are identical."]
    names = ", ".join(f"{setting} seed {seed}" for setting, seed in again.differing[:8])
    return [
        f"{len(again.differing)} of {again.compared} records differ from the bundle: {names}.",
        "Other versions of Berth, Python, numpy or numba may give other numbers.",
    ]


def _read(path: str) -> Any:
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
        return json.loads(text)
    except OSError as error:
        raise CliError(f"{path}: {error.strerror}", code=Exit.USAGE) from error
    except ValueError as error:
        raise CliError(f"{path}: not JSON ({error})", code=Exit.USAGE) from error
