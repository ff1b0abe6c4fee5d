"""Key figures of a comparison, and the applications that would gain or lose."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from apps.dashboard.core import formats
from apps.dashboard.core.lab_matrix import HALF_BAR, Result, interval_text, subject

SHOWN: Final = 12  # applications
WORDS: Final = {"better": "", "worse": "", "unclear": ", within noise", "untested": ""}


@dataclass(frozen=True, slots=True)
class Fact:
    """One key figure: name, value with unit, and where it comes from."""

    name: str
    value: str
    unit: str
    note: str


def facts(result: Result) -> tuple[Fact, ...]:
    """Return the key figures of the best setting."""
    best = subject(result)
    return (
        _best(result, best),
        _unfinished(result, best),
        _regret(result, best),
        _measure(result, best, "energy_kwh", "Energy"),
        _measure(result, best, "wait_p99_s", "Wait, p99"),
    )


def winning_policy(result: Result, grid: Sequence[Mapping[str, Any]]) -> str:
    """Return the policy that is clearly better than every other setting; "" if there is none.

    Only a policy with its default parameters and on all servers can be applied to the cluster.
    """
    leaders = result["leaders"][result["measures"][0]["key"]]
    if len(leaders) != 1 or leaders[0] == result["bound"]:
        return ""
    options = next(each["options"] for each in grid if each["name"] == leaders[0])
    return str(options["policy"]) if options.keys() == {"policy"} else ""


def _mean(result: Result, setting: str, measure: str) -> Sequence[float | None] | None:
    return next(
        m["interval"]
        for m in result["means"]
        if (m["setting"], m["measure"]) == (setting, measure)
    )


def _best(result: Result, best: str) -> Fact:
    primary = result["measures"][0]
    leaders = result["leaders"][primary["key"]]
    value, ends = interval_text(_mean(result, best, primary["key"]))
    note = f"{value} % {ends}".rstrip()
    if len(result["seeds"]) < 2:
        return Fact("Best mean", best, "", f"{note}; one seed proves nothing")
    if leaders == [best]:
        return Fact("Best policy", best, "", f"{note}, n = {len(result['seeds'])} seeds")
    shared = [name for name in leaders if name != best]
    reason = f"the lead is shared with {formats.listed(shared)}" if shared else "no clear leader"
    return Fact("Best mean", best, "", f"{note}; {reason}")


def _unfinished(result: Result, best: str) -> Fact:
    seeds, jobs = len(result["seeds"]), int(result["jobs"])
    finished = (_mean(result, best, "jobs_finished") or [0.0])[0] or 0.0
    lost = round(seeds * (jobs - finished))
    note = f"under {best}, n = {formats.thousands(seeds * jobs)}"
    if not lost:
        # upper end of a 95 % interval without any event: 3/n (rule of three)
        per_10_000 = 30_000.0 / max(seeds * jobs, 1)
        note += f"; rate below {formats.significant(per_10_000, 2)} in 10,000"
    return Fact("Jobs not finished", formats.thousands(lost), "", note)


def _regret(result: Result, best: str) -> Fact:
    primary = result["measures"][0]["key"]
    found = {
        r["setting"]: r["interval"]
        for r in result["regrets"]
        if r["measure"] == primary and r["interval"]
    }
    if best not in found:
        return Fact("Regret to the bound", "–", "", "no setting was a bound")
    value, ends = interval_text(found[best])
    base = result["baseline"]
    others = ""
    if base != best and base in found:
        others = f"; {base} is {interval_text(found[base])[0]} away"
    return Fact("Regret to the bound", value, "points", f"{ends}{others}".lstrip("; "))


def _measure(result: Result, best: str, key: str, name: str) -> Fact:
    unit = next(m["unit"] for m in result["measures"] if m["key"] == key)
    value, ends = interval_text(_mean(result, best, key))
    difference = next(
        (d for d in result["differences"] if (d["setting"], d["measure"]) == (best, key)), None
    )
    if difference is None or not difference["corrected"]:
        return Fact(name, value, unit, f"under {best} {ends}".rstrip())
    change, low, high = difference["corrected"]
    digits = 0 if abs(change) >= 10 else 1
    parts = ""
    if low is not None and high is not None:
        parts = f" [{formats.signed(low, digits)}, {formats.signed(high, digits)}]"
    word = WORDS[difference["outcome"]]
    note = f"{formats.signed(change, digits)} {unit}{parts} to {result['baseline']}{word}"
    return Fact(name, value, unit, note)


@dataclass(frozen=True, slots=True)
class Change:
    """One application under a setting, against the baseline: points of performance.

    ``left`` and ``width`` are px of its bar, right of the middle if it gains.
    """

    application: str
    jobs: int
    value: str
    interval: str
    outcome: str
    left: float
    width: float


@dataclass(frozen=True, slots=True)
class Changes:
    """Applications that change most; ``settings`` are those that could be shown."""

    title: str
    setting: str
    settings: tuple[str, ...]
    rows: tuple[Change, ...]
    note: str


def application_changes(result: Result, asked: str) -> Changes | None:
    """Return the changes of a setting, or of the best one; None without a second setting."""
    settings = tuple(name for name in result["settings"] if name != result["baseline"])
    if not settings:
        return None
    best = subject(result)
    setting = asked if asked in settings else best if best in settings else settings[0]
    of = [each for each in result["applications"] if each["setting"] == setting]
    known = [each for each in of if each["difference"]]
    gains = sum(each["outcome"] == "better" for each in of)
    losses = sum(each["outcome"] == "worse" for each in of)
    count = formats.plural(len(of), "application")
    if len(result["seeds"]) < 2:
        title = "Changes by application, without intervals"
    else:
        title = f"{gains} of {count} would gain, {losses} would lose"
    known.sort(key=lambda each: (each["outcome"] == "unclear", -abs(each["difference"][0])))
    shown = known[:SHOWN]
    note = f"{setting} − {result['baseline']}, points"
    if len(known) > len(shown):
        note += f"; {len(shown)} of {len(known)}, the clearest first"
    return Changes(title, setting, settings, tuple(_changes(shown)), note)


def _changes(shown: Sequence[Mapping[str, Any]]) -> Iterator[Change]:
    largest = max((abs(each["difference"][0]) for each in shown), default=0.0)
    for each in sorted(shown, key=lambda each: -each["difference"][0]):
        change, low, high = each["difference"]
        width = HALF_BAR * 2.0 * abs(change) / largest if largest else 0.0
        ends = "" if low is None else f"[{formats.signed(low, 1)}, {formats.signed(high, 1)}]"
        yield Change(
            application=each["application"],
            jobs=each["jobs"],
            value=formats.signed(change, 1),
            interval=ends,
            outcome=each["outcome"],
            left=round(HALF_BAR * 2.0 - (width if change < 0.0 else 0.0), 2),
            width=round(width, 2),
        )
