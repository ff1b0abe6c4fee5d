"""Texts and table rows of the results of a shadow policy."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from apps.dashboard.core import formats
from apps.scheduling.core.records.shadow_summary import Estimate, Summary

POINTS: Final = 100.0  # regrets are shown in percent of the performance of one job
GROUP_NAMES: Final = {
    "kind": "By kind of job",
    "policy": "By policy that decided",
    "platform": "By platform of the live choice",
}
REFUSED: Final = "refused"  # platform of a job that the live policy did not place


class SummaryRow(NamedTuple):
    """Agreement and predicted regret of some decisions, as text."""

    name: str
    decisions: int
    agreement: tuple[tuple[str, str], ...]  # value and interval
    regrets: tuple[tuple[str, str], ...]
    only_live: int
    only_shadow: int


class SummaryGroup(NamedTuple):
    """Rows under a heading; an empty heading = all decisions."""

    heading: str
    rows: Sequence[SummaryRow]


def groups(
    total: Summary, parts: Mapping[str, Sequence[tuple[str, Summary]]]
) -> list[SummaryGroup]:
    """Return the rows of the table: all decisions, then each breakdown."""
    found = [SummaryGroup("", [_row("All decisions", total)])]
    for name, heading in GROUP_NAMES.items():
        rows = [_row(value or REFUSED, part) for value, part in parts[name]]
        found.append(SummaryGroup(heading, rows))
    return found


def _row(name: str, part: Summary) -> SummaryRow:
    return SummaryRow(
        name,
        part.decisions,
        tuple(map(share_text, (part.same_units, part.same_servers, part.same_platforms))),
        tuple(map(regret_text, (part.regret, part.job, part.neighbours))),
        part.only_live,
        part.only_shadow,
    )


def share_text(estimate: Estimate) -> tuple[str, str]:
    """Return a share and its interval, such as ("62.0 %", "[58.1, 65.7]")."""
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return "–", ""
    ends = (formats.thousands(POINTS * end, 1) for end in (estimate.low, estimate.high))
    return formats.percent(estimate.value), f"[{', '.join(ends)}]"


def regret_text(estimate: Estimate) -> tuple[str, str]:
    """Return a regret in percent and its interval, such as ("+3.10 %", "[+2.00, +4.20]")."""
    if estimate.value is None:
        return "–", ""
    value = f"{formats.signed(POINTS * estimate.value, 2)} %"
    if estimate.low is None or estimate.high is None:
        return value, ""
    ends = (formats.signed(POINTS * end, 2) for end in (estimate.low, estimate.high))
    return value, f"[{', '.join(ends)}]"


def finding(policy: str, total: Summary) -> str:
    """Say in one sentence what the shadow would have done, and with which predicted effect."""
    if not total.decisions or total.same_servers.value is None:
        return "No decision has been compared yet"
    count = formats.plural(total.decisions, "decision")
    if total.same_units.value == 1.0:
        return f"{policy} chose the same units in all {count}"
    agreed = f"{policy} chose the same servers in {formats.percent(total.same_servers.value, 0)}"
    return f"{agreed} of {count}; {_effect(total.regret)}"


def _effect(regret: Estimate) -> str:
    if regret.value is None:
        return "no job was placed by both"
    if regret.low is None or regret.high is None:
        return "too few batches to tell whether it is better or worse"
    if regret.low <= 0.0 <= regret.high:
        return "it is not predicted to be better or worse"
    size = formats.percent(abs(regret.value), 2)
    return f"it is predicted to be {'worse' if regret.value > 0.0 else 'better'} by {size}"
