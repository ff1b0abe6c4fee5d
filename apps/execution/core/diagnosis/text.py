"""Sentences of a diagnosis."""

from typing import Final

from apps.execution.core.diagnosis.attribution import Attribution, Kind, Reference
from apps.execution.core.diagnosis.remedies import Remedy, RemedyKind
from apps.execution.core.diagnosis.suspects import Names, Suspect, compared
from apps.workloads.core.targets import CompletionTime, InstructionRate, Target, ThroughputLatency

NO_DIP: Final = "The job has met its target in all its reports."
NO_REPORT: Final = "No report has measured the performance of the job yet."
SINGLE: Final = "Only single reports are below the target; two in a row begin a dip."
NO_TARGET: Final = "The job has no target to miss."
NO_SPEED: Final = "Its reports during the dip give no speed, so there are no suspects."


def headline(attribution: Attribution, suspects: tuple[Suspect, ...], unknown: float) -> str:
    """Return one sentence: the lost speed and the likeliest cause."""
    if suspects and suspects[0].kind is Kind.WAIT:
        text = suspects[0].evidence[0].text
        return f"{text[:1].upper()}{text[1:]}."
    lost = compared(attribution)
    lost = lost[:1].upper() + lost[1:]
    is_fast = attribution.reference is Reference.PREDICTION and attribution.drop <= 0.0
    if is_fast and not (suspects and suspects[0].kind is Kind.UNITS):
        return f"{lost}, but too slow for the target; no neighbour or migration explains that."
    if not suspects or unknown >= suspects[0].confidence:
        return f"{lost}; no reported cause explains it ({unknown:.0%} sure)."
    first = suspects[0]
    return f"{lost}; most likely cause: {_inside(first.title)} ({first.confidence:.0%} sure)."


def remedy_text(remedy: Remedy, names: Names, application: str, target: Target) -> str:
    """Return a remedy as an imperative, without its effect."""
    match remedy.kind:
        case RemedyKind.MOVE if remedy.from_server is not None and remedy.to_server is not None:
            units = f"{remedy.units} unit{'' if remedy.units == 1 else 's'}"
            source, goal = names.server(remedy.from_server), names.server(remedy.to_server)
            return f"Migrate {units} from {source} to {goal}"
        case RemedyKind.UNITS:
            return f"Submit it again with {remedy.units} units"
        case RemedyKind.PROFILE:
            return f"Profile {application} again"
        case _:
            return f"Relax the target to {_value(remedy.relaxed, target)}"


COSTS: Final = {
    RemedyKind.MOVE: "1 migration; its units pause while their memory is copied",
    RemedyKind.UNITS: "no backend resizes a running job: the new one begins at 0 %",
    RemedyKind.RELAX: "nothing moves; the job keeps its performance",
    RemedyKind.PROFILE: "a short profiling run; the job keeps running",
}


def relaxed_target(target: Target, value: float) -> dict[str, object]:
    """Return a target with another value, as JSON."""
    field = {CompletionTime: "seconds", ThroughputLatency: "latency_seconds"}.get(
        type(target), "ips"
    )
    return {**target.as_json(), field: value}


def _value(value: float, target: Target) -> str:
    if isinstance(target, InstructionRate):
        scaled, prefix = (value / 1e9, "G") if value >= 1e9 else (value / 1e6, "M")
        return f"{scaled:.3g} {prefix} instr./s"
    if value < 1.0:
        return f"{1000.0 * value:.3g} ms"
    return f"{value:.3g} s" if value < 1000.0 else f"{value:,.0f} s"


def _inside(title: str) -> str:
    """Return a title inside a sentence; names of jobs keep their case."""
    words = ("The ", "A ", "Units ", "Slower ", "Fewer ")
    return title[:1].lower() + title[1:] if title.startswith(words) else title
