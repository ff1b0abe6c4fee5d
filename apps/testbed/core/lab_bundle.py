"""Bundles: a comparison in one file, with everything that another machine needs to repeat it.

A bundle is JSON: plan, jobs, digest, versions, and the results. Running it gives the same records
bit for bit with the same versions; `rerun` says where it does not.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from apps.common.core.errors import InvalidInputError
from apps.testbed.core.any_format import parse_any
from apps.testbed.core.berth_jobs import berth_lines
from apps.testbed.core.lab import LabPlan, LabSetting, canonical, plan_of
from apps.testbed.core.lab_sweeps import next_runs
from apps.testbed.core.replay.errors import ReplayError
from apps.testbed.core.traces import TraceError

FORMAT: Final = "berth-lab-bundle"
VERSION: Final = 1
_PARTS: Final = {"versions": dict, "plan": dict, "jobs": list, "records": list, "digest": str}


def bundle_of(
    name: str,
    plan: LabPlan,
    versions: Mapping[str, str],
    records: Sequence[Mapping[str, Any]],
    result: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Return the bundle of a comparison; ``records`` in any order."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "name": name,
        "digest": plan.digest,
        "versions": dict(versions),
        "plan": plan.choices(),
        "jobs": list(berth_lines(plan.trace)),
        "records": sorted(records, key=lambda record: (record["setting"], record["seed"])),
        "result": result,
    }


def plan_of_bundle(bundle: object) -> LabPlan:
    """Return the plan of a bundle.

    Raises
    ------
    ReplayError : not a bundle of this version, damaged, or changed since it was made.
    """
    if not isinstance(bundle, dict) or bundle.get("format") != FORMAT:
        raise ReplayError(f"not a bundle: expected a JSON object with the format {FORMAT}")
    if bundle.get("version") != VERSION:
        found = bundle.get("version")
        raise ReplayError(f"the bundle has version {found}; this Berth reads version {VERSION}")
    for part, kind in _PARTS.items():
        if not isinstance(bundle.get(part), kind):
            raise ReplayError(f"the bundle has no {part}, which must be a {kind.__name__}")
    if not all(isinstance(line, str) for line in bundle["jobs"]):
        raise ReplayError("jobs of the bundle must be a list of texts")
    try:
        trace = parse_any(bundle["jobs"], path="jobs of the bundle", name="lab", strict=True)
        plan = plan_of(bundle["plan"], trace)
    except (TraceError, InvalidInputError) as error:
        raise ReplayError(str(error)) from error
    if plan.digest != bundle["digest"]:
        raise ReplayError("the plan or the jobs of the bundle were changed: the digest differs")
    _check_records(bundle["records"], plan)
    return plan


def _check_records(records: Sequence[object], plan: LabPlan) -> None:
    """Check that every record belongs to a run of the plan, and to one only."""
    runs = {(setting.name, seed) for setting, seed in plan.runs}
    for place, record in enumerate(records):
        if not isinstance(record, Mapping):
            raise ReplayError(f"record {place} of the bundle must be an object")
        run = record.get("setting"), record.get("seed")
        if not isinstance(run[0], str) or not isinstance(run[1], int) or run not in runs:
            raise ReplayError(
                f"record {place} of the bundle is of {run[0]!r} with seed {run[1]!r}, which the"
                " plan does not run, or which is there twice"
            )
        runs.remove(run)


@dataclass(frozen=True, slots=True)
class Rerun:
    """All runs of a bundle, again.

    Attributes
    ----------
    records : of all runs of the plan, which for a sweep are those of its rounds
    compared : number of runs of which the bundle has a record
    differing : setting and seed of the runs whose records differ from those of the bundle, or
        that a sweep did not make again
    """

    plan: LabPlan
    records: tuple[dict[str, Any], ...]
    compared: int
    differing: tuple[tuple[str, int], ...]


def rerun(
    bundle: Mapping[str, Any], run: Callable[[LabPlan, LabSetting, int], dict[str, Any]]
) -> Rerun:
    """Run a bundle again and compare the records bit for bit.

    Parameters
    ----------
    run : runs a setting with a seed and returns the record

    Raises
    ------
    ReplayError : see `plan_of_bundle`.
    """
    plan = plan_of_bundle(bundle)
    stored = {(r["setting"], r["seed"]): canonical(r) for r in bundle["records"]}
    records: dict[tuple[str, int], dict[str, Any]] = {}
    while wanted := next_runs(plan, {key: each["row"] for key, each in records.items()}).runs:
        for setting, seed in wanted:
            records[setting.name, seed] = run(plan, setting, seed)
    differing = tuple(
        key
        for key in sorted(records.keys() | stored.keys())
        if key not in records
        or stored.get(key, canonical(records[key])) != canonical(records[key])
    )
    return Rerun(plan, tuple(records.values()), len(stored), differing)
