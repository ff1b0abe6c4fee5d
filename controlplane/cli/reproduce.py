"""berth reproduce: the figures of a paper next to ours; needs no server."""

import time
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from controlplane.cli.errors import CliError, Exit
from controlplane.cli.interactive import ProgressLine
from controlplane.cli.output import columns, print_result, render
from controlplane.cli.verbs import Verbs

if TYPE_CHECKING:
    from apps.testbed.core.reproduction.figures import Figure

HEADINGS = ("quantity", "unit", "paper", "ours", "interval", "outcome")


def declare(verbs: Verbs) -> None:
    """Declare the verb and its arguments."""
    parser = verbs.add_offline("reproduce", reproduce, __doc__)
    parser.add_argument(
        "paper", metavar="PAPER", help="clavismo, paragon, quasar, tarcil or thesis"
    )
    parser.add_argument(
        "--figure", metavar="N", help="such as 9 or table-4.1; default: all that are quick"
    )
    parser.add_argument("--seeds", default="1-3", metavar="1-5", help="seeds, such as 1-5 or 1,3")
    parser.add_argument(
        "--small", action="store_true", help="smaller clusters and fewer jobs, in minutes"
    )
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="folder with the public data sets"
    )


def reproduce(args: Namespace) -> int:
    """Measure the figures of a paper and compare them with its numbers; needs no server."""
    # imported here, as numba and numpy are slow to import
    from apps.testbed.core.replay.errors import ReplayError  # noqa: PLC0415
    from apps.testbed.core.replay.run import seeds_of  # noqa: PLC0415
    from apps.testbed.core.reproduction import PAPERS  # noqa: PLC0415
    from apps.testbed.core.reproduction.figures import (  # noqa: PLC0415
        ReproductionError,
        measured,
        report,
    )
    from apps.testbed.core.traces import TraceError, UnreadableTraceError  # noqa: PLC0415
    from apps.testbed.files import DataFolder  # noqa: PLC0415

    if args.paper not in PAPERS:
        known = ", ".join(PAPERS)
        raise CliError(f"PAPER must be one of {known}, not {args.paper!r}", code=Exit.USAGE)
    paper, data, show = PAPERS[args.paper], DataFolder(args.data or Path()), _progress()
    paper = paper.reduced() if args.small else paper
    try:
        seeds, figures = seeds_of(args.seeds), paper.chosen(args.figure)
        for figure in figures:
            _check_data(figure, args.data)
        rows = {figure.number: measured(figure, seeds, show(figure, data)) for figure in figures}
    except (ReplayError, ReproductionError, UnreadableTraceError) as error:
        raise CliError(str(error), code=Exit.USAGE) from error
    except TraceError as error:
        raise CliError(str(error), code=Exit.FAILED) from error
    document = report(paper, seeds, rows)
    print_result(render(document, args.output, _text(document)))
    return Exit.OK


def _check_data(figure: "Figure", folder: Path | None) -> None:
    """Refuse before the first run, not after it."""
    for name in figure.data:
        if folder is None or not (folder / name).is_dir():
            where = "--data is not given" if folder is None else f"{folder / name} does not exist"
            raise CliError(
                f"figure {figure.number} needs the data set {name}: {where}", code=Exit.USAGE
            )


def _progress() -> Any:
    line, began = ProgressLine(), time.perf_counter()

    def show(figure: "Figure", data: Any) -> Any:
        line.show(time.perf_counter() - began, f"figure {figure.number}: {figure.title}")
        return data

    return show


def _text(document: dict[str, Any]) -> str:
    parts = [f"{document['source']}, seeds {', '.join(map(str, document['seeds']))}"]
    for figure in document["figures"]:
        rows = [_row(each) for each in figure["quantities"]]
        reasons = dict.fromkeys(each["why"] for each in figure["quantities"] if each["why"])
        parts.append(
            "\n".join(
                [
                    f"{figure['figure']}  {figure['title']}",
                    columns(HEADINGS, rows),
                    *(f"- {reason}" for reason in [*reasons, figure["note"]] if reason),
                ]
            )
        )
    if document["not_measured"]:
        parts.append(f"Not measured: {', '.join(document['not_measured'])} (--figure N).")
    return "\n\n".join(parts)


def _row(quantity: dict[str, Any]) -> list[str]:
    paper, interval = quantity["paper"], quantity["interval"]
    relation = "" if quantity["relation"] == "equal" else f"{quantity['relation']} "
    return [
        quantity["quantity"],
        quantity["unit"],
        "-" if paper is None else f"{relation}{paper:g}",
        f"{quantity['ours']:.4g}",
        _interval(interval, is_same=quantity["is_same"]),
        quantity["outcome"],
    ]


def _interval(interval: list[float] | None, *, is_same: bool) -> str:
    if interval is None:
        return "same for all seeds" if is_same else "-"
    return f"{interval[0]:.4g} .. {interval[1]:.4g}"
