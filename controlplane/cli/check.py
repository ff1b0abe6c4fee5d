"""`berth check`: evaluate a job without submitting it."""

from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from controlplane.cli.client import BerthClient
from controlplane.cli.errors import Exit
from controlplane.cli.job_options import add_array_option, add_job_options, read_job_or_array
from controlplane.cli.output import (
    duration,
    facts,
    ips,
    percent,
    print_result,
    render,
    requested_guarantee,
    start_text,
    work_rate,
)
from controlplane.cli.verbs import Verbs


def declare(verbs: Verbs) -> None:
    """Declare the verb and its arguments."""
    parser = verbs.add("check", check)
    add_job_options(parser)
    add_array_option(parser)


def check(client: BerthClient, args: Namespace) -> int:
    """Evaluate a job without submitting it."""
    job = read_job_or_array(args)
    response = client.post("/api/v1/checks/", job).body
    print_result(
        render(response, args.output, _check_table(response, job.get("spec", job)["target"]))
    )
    return Exit.INFEASIBLE if response["feasible"] is False else Exit.OK


def _check_table(response: Mapping[str, Any], target: Mapping[str, Any]) -> str:
    known = response["guarantee"]
    shown = {
        "outcome": response["outcome"],
        "reason": response["reason"],
        "units": response["units"],
        "platforms": ", ".join(response["platforms"]) or None,
        "servers": ", ".join(response["servers"][:5]) or None,
        "predicted": _predicted(response["predicted"], target["kind"]),
        "starts": start_text(response["start"]) if response.get("start") else None,
        "P(target met)": percent(response["probability_met"]),
        "examined": f"{response['units_examined']} of {response['units_eligible']} eligible units",
        "policy": response["policy"] or None,
        "guarantee": known["statement"] if known else None,
    }
    if response["members"] is not None:
        shown = {"members": f"{response['members']:,}; the outcome is that of one", **shown}
    lines = [response["summary"], "", facts(shown)]
    if response["outcome"] != "placed":
        lines.append(f"next: {response['next_action']}")
    lines += [f"warning: {text}" for text in response["warnings"]]
    lines += requested_guarantee(known.get("requested")) if known else []
    lines += [f"feasible: {suggestion['text']}" for suggestion in response["suggestions"]]
    return "\n".join(lines)


def _predicted(predicted: Mapping[str, Any] | None, kind: str) -> str | None:
    """Return the prediction in the unit of the target, with its 90 % interval if it has one."""
    if predicted is None:
        return None
    unit = {"ips": ips, "best_effort": work_rate}.get(kind, duration)
    value, low, high = predicted["value"], predicted["low"], predicted["high"]
    if low is None or high is None:
        return unit(value)
    return f"{unit(value)} (90% interval {unit(low)} to {unit(high)})"
