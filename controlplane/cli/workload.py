"""berth workload: fit a model to a trace, and generate traces; needs no server."""

import json
from argparse import ArgumentParser, Namespace
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from controlplane.cli.errors import CliError, Exit
from controlplane.cli.output import columns, print_result, render
from controlplane.cli.verbs import Verbs

if TYPE_CHECKING:
    from apps.testbed.core.workload_model.model import WorkloadModel

SHOWN = ("class", "quantity", "jobs", "distance", "low", "high", "same_distribution")
LARGEST_SEED = 2**32


def declare(verbs: Verbs) -> None:
    """Declare the verbs and their arguments."""
    noun = verbs.noun("workload", "fit workloads to traces, and generate traces; needs no server")
    parser = noun.add_offline("fit", fit, __doc__)
    parser.add_argument("trace", metavar="TRACE", help="trace file, in any known format")
    parser.add_argument("--out", required=True, metavar="FILE", help="JSON file of the fit")
    parser.add_argument(
        "--classes", type=int, default=0, metavar="K", help="classes of each kind; default by BIC"
    )
    _seed(parser)
    parser = noun.add_offline("generate", generate, __doc__)
    parser.add_argument("model", metavar="FILE|MIX", help="a fit, or the name of a paper's mix")
    parser.add_argument(
        "--out", required=True, metavar="TRACE", help="name.jsonl, .parquet or .swf, or with .gz"
    )
    parser.add_argument(
        "--scale", type=float, default=1.0, help="factor on the number of jobs in the same time"
    )
    parser.add_argument(
        "--burst",
        type=float,
        default=0.0,
        help="variance added to the relative arrival rate of each minute",
    )
    _seed(parser)
    noun.add_offline("mixes", mixes, __doc__)


def fit(args: Namespace) -> int:
    """Fit a model to a trace and compare the two; needs no server."""
    # imported here, as numpy and scipy are slow to import
    import numpy as np  # noqa: PLC0415

    from apps.testbed.core import arrival_comparison  # noqa: PLC0415
    from apps.testbed.core.traces import TraceError, UnreadableTraceError  # noqa: PLC0415
    from apps.testbed.core.workload_model.document import document_of  # noqa: PLC0415
    from apps.testbed.core.workload_model.fit import distances  # noqa: PLC0415
    from apps.testbed.core.workload_model.fit import fit as fitted  # noqa: PLC0415
    from apps.testbed.core.workload_model.model import WorkloadModelError  # noqa: PLC0415
    from apps.testbed.files import read_trace  # noqa: PLC0415

    seed = _checked_seed(args.seed)
    try:
        trace = read_trace(Path(args.trace))
        found = fitted(trace, np.random.default_rng(seed), classes=args.classes)
        rows = distances(trace, found, seed)
        processes = arrival_comparison.process_distances(trace.jobs.submit_s, seed)
    except (WorkloadModelError, UnreadableTraceError) as error:
        raise CliError(str(error), code=Exit.USAGE) from error
    except TraceError as error:
        raise CliError(str(error), code=Exit.FAILED) from error
    document = {
        **document_of(found.model, rows),
        "processes": [asdict(row) for row in processes],
    }
    _write(Path(args.out), json.dumps(document, indent=1, allow_nan=False) + "\n")
    head = f"{found.model.source}: {len(found.classes)} classes, in {args.out}"
    table = columns(SHOWN, [[row[name] for name in SHOWN] for row in rows])
    beside = columns(arrival_comparison.HEAD, arrival_comparison.table(processes))
    text = f"{head}\n\n{table}\n\ntimes between arrivals, all processes:\n\n{beside}"
    print_result(render(document, args.output, text))
    return Exit.OK


def generate(args: Namespace) -> int:
    """Generate a trace from a fit or from a paper's mix; needs no server."""
    from apps.testbed.core.traces import TraceError  # noqa: PLC0415
    from apps.testbed.core.workload_model.model import (  # noqa: PLC0415
        WorkloadModelError,
        generated,
    )
    from apps.testbed.files import write_trace  # noqa: PLC0415

    seed = _checked_seed(args.seed)
    try:
        trace = generated(_model(args.model), seed, scale=args.scale, burst=args.burst)
        write_trace(trace, Path(args.out))
    except WorkloadModelError as error:
        raise CliError(f"{args.model}: {error}", code=Exit.USAGE) from error
    except TraceError as error:
        raise CliError(str(error), code=Exit.FAILED) from error
    facts = {
        "trace": args.out,
        "jobs": len(trace),
        "applications": len(trace.applications),
        "span_s": float(trace.jobs.submit_s[-1]),
        "notes": list(trace.notes),
    }
    text = f"{len(trace)} jobs of {trace.name}, in {args.out}"
    print_result(render(facts, args.output, "\n".join([text, *trace.notes])))
    return Exit.OK


def mixes(args: Namespace) -> int:
    """List the papers' mixes; needs no server."""
    from apps.testbed.core.workload_model.mixes import MIXES  # noqa: PLC0415

    rows = [
        {
            "mix": mix.name,
            "jobs": sum(stream.jobs for stream in mix.streams),
            "source": mix.source,
            "notes": list(mix.notes),
        }
        for mix in MIXES.values()
    ]
    shown = ("mix", "jobs", "source")
    table = columns(shown, [[row[name] for name in shown] for row in rows])
    print_result(render(rows, args.output, table))
    return Exit.OK


def _model(text: str) -> "WorkloadModel":
    from apps.testbed.core.workload_model.document import model_of  # noqa: PLC0415
    from apps.testbed.core.workload_model.mixes import MIXES  # noqa: PLC0415

    if text in MIXES:
        return MIXES[text]
    try:
        document: Any = json.loads(Path(text).read_text(encoding="utf-8"))
    except OSError as error:
        detail = f"{text} is neither a mix (berth workload mixes) nor a file: {error.strerror}"
        raise CliError(detail, code=Exit.USAGE) from error
    except RecursionError as error:
        raise CliError(f"{text} is nested too deeply", code=Exit.USAGE) from error
    except ValueError as error:
        raise CliError(f"{text} is not JSON: {error}", code=Exit.USAGE) from error
    return model_of(document)


def _seed(parser: ArgumentParser) -> None:
    parser.add_argument("--seed", type=int, default=1)


def _checked_seed(seed: int) -> int:
    if not 0 <= seed < LARGEST_SEED:
        raise CliError(f"--seed must lie in 0 .. 2^32 - 1, not {seed}", code=Exit.USAGE)
    return seed


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CliError(f"{path} cannot be written: {error.strerror}", code=Exit.USAGE) from error
