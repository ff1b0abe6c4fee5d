"""The diagnosis of a job in the API."""

import math
from typing import Any

from rest_framework import serializers

from apps.classification.core.estimates import Estimate
from apps.common.core.interference import SOURCES
from apps.execution.core.diagnosis.attribution import Kind, Reference
from apps.execution.core.diagnosis.case import Case
from apps.execution.core.diagnosis.diagnose import Finding
from apps.execution.core.diagnosis.dips import Dip
from apps.execution.core.diagnosis.remedies import Remedy, RemedyKind
from apps.execution.core.diagnosis.suspects import Names, Suspect
from apps.execution.core.diagnosis.text import COSTS
from apps.execution.selectors.diagnosis import Diagnosis

SUSPECT_KINDS = [kind.value for kind in Kind if kind is not Kind.UNKNOWN]


class IntervalSerializer(serializers.Serializer[Any]):
    """A value with its 90 % interval."""

    value = serializers.FloatField()
    low = serializers.FloatField()
    high = serializers.FloatField()


class DipSerializer(serializers.Serializer[Any]):
    """A period below the target, in cluster seconds."""

    begin_seconds = serializers.FloatField()
    end_seconds = serializers.FloatField(allow_null=True, help_text="Null: it has not ended.")
    reports = serializers.IntegerField(help_text="Reports below the target.")
    attainment_min = serializers.FloatField()


class NeighbourSerializer(serializers.Serializer[Any]):
    """Units of another job on a server of the job, around the dip."""

    job = serializers.UUIDField(allow_null=True, help_text="Null: a job of another project.")
    name = serializers.CharField()
    server = serializers.CharField()
    units = serializers.IntegerField()
    from_seconds = serializers.FloatField(help_text="When it began to work there.")
    to_seconds = serializers.FloatField(allow_null=True, help_text="Null: it is still there.")


class DipPressureSerializer(serializers.Serializer[Any]):
    """Pressure of one source on the job's units, 0-100, as assumed from profiles."""

    source = serializers.CharField()  # type: ignore[assignment]  # shadows Field.source
    before = serializers.FloatField(allow_null=True)
    at_dip = serializers.FloatField()
    tolerated = IntervalSerializer(allow_null=True)
    is_crossed = serializers.BooleanField(help_text="Whether it is above what the job tolerates.")


class EvidenceSerializer(serializers.Serializer[Any]):
    """One fact for or against a suspect."""

    is_for = serializers.BooleanField()
    about = serializers.CharField()
    text = serializers.CharField()


class SuspectSerializer(serializers.Serializer[Any]):
    """A possible cause of the dip."""

    kind = serializers.ChoiceField(choices=SUSPECT_KINDS)
    title = serializers.CharField()
    job = serializers.UUIDField(allow_null=True)
    server = serializers.CharField(allow_null=True)
    confidence = serializers.FloatField(help_text="Probability that it is the largest cause.")
    share = IntervalSerializer(
        allow_null=True,
        help_text="Share of the lost speed that it explains, 0-1; null: no speed was lost.",
    )
    evidence = EvidenceSerializer(many=True)


class ActionSerializer(serializers.Serializer[Any]):
    """The request that carries a remedy out."""

    method = serializers.CharField()
    path = serializers.CharField()
    body = serializers.DictField()


class RemedySerializer(serializers.Serializer[Any]):
    """What would help, with the predicted performance."""

    kind = serializers.ChoiceField(choices=[kind.value for kind in RemedyKind])
    text = serializers.CharField()
    cost = serializers.CharField()
    predicted = IntervalSerializer(allow_null=True, help_text="In the target's unit.")
    probability_met = serializers.FloatField(allow_null=True)
    action = ActionSerializer(allow_null=True, help_text="Null: no request does it.")


class UnchangedSerializer(serializers.Serializer[Any]):
    """Predicted performance if nothing is done."""

    predicted = IntervalSerializer(help_text="In the target's unit.")
    probability_met = serializers.FloatField()


class DiagnosisSerializer(serializers.Serializer[Any]):
    """Why a job misses, or missed, its target."""

    job = serializers.UUIDField()
    summary = serializers.CharField()
    dips = DipSerializer(many=True, help_text="Oldest first.")
    dip = DipSerializer(allow_null=True, help_text="The one diagnosed.")
    compared_with = serializers.ChoiceField(
        choices=[reference.value for reference in Reference], allow_null=True
    )
    lost_speed = serializers.FloatField(
        allow_null=True, help_text="Share of the speed lost during the dip; below 0: faster."
    )
    suspects = SuspectSerializer(many=True, help_text="Most likely first.")
    unknown = serializers.FloatField(
        allow_null=True, help_text="Probability that no reported cause is the largest."
    )
    pressure = DipPressureSerializer(many=True)
    neighbours = NeighbourSerializer(many=True)
    unchanged = UnchangedSerializer(allow_null=True)
    remedies = RemedySerializer(many=True, help_text="Only for a dip that has not ended.")


def represent_diagnosis(found: Diagnosis) -> dict[str, Any]:
    """JSON of a diagnosis."""
    finding, case = found.finding, found.case
    attribution = None if finding is None else finding.attribution
    drop = math.nan if attribution is None else attribution.drop
    return {
        "job": str(found.job.pk),
        "summary": found.summary,
        "dips": [_dip(dip) for dip in found.dips],
        "dip": None if found.dip is None else _dip(found.dip),
        "compared_with": None if attribution is None else attribution.reference.value,
        "lost_speed": None if math.isnan(drop) else 1.0 - math.exp(-drop),
        "suspects": []
        if finding is None
        else [_suspect(s, found.names) for s in finding.suspects],
        "unknown": None if finding is None else finding.unknown,
        "pressure": [] if finding is None else _pressure(finding),
        "neighbours": [] if case is None else _neighbours(case, found.names),
        "unchanged": _prediction(found.unchanged),
        "remedies": [_remedy(remedy, found) for remedy in found.remedies],
    }


def _remedy(remedy: Remedy, found: Diagnosis) -> dict[str, Any]:
    return {
        "kind": remedy.kind.value,
        "text": found.text_of(remedy),
        "cost": COSTS[remedy.kind],
        "predicted": None if remedy.predicted is None else _interval(remedy.predicted),
        "probability_met": None if math.isnan(remedy.probability) else remedy.probability,
        "action": found.request_of(remedy),
    }


def _dip(dip: Dip) -> dict[str, Any]:
    return {
        "begin_seconds": dip.begin_s,
        "end_seconds": None if dip.is_open else dip.end_s,
        "reports": dip.reports,
        "attainment_min": dip.lowest,
    }


def _suspect(suspect: Suspect, names: Names) -> dict[str, Any]:
    return {
        "kind": suspect.kind.value,
        "title": suspect.title,
        "job": suspect.job if suspect.job in names.jobs else None,
        "server": None if suspect.server is None else names.server(suspect.server),
        "confidence": suspect.confidence,
        "share": None if suspect.share is None else _interval(suspect.share),
        "evidence": [
            {"is_for": fact.is_for, "about": fact.about, "text": fact.text}
            for fact in suspect.evidence
        ],
    }


def _pressure(finding: Finding) -> list[dict[str, Any]]:
    pressure = finding.pressure
    return [
        {
            "source": source,
            "before": None if math.isnan(pressure.before[i]) else float(pressure.before[i]),
            "at_dip": float(pressure.at_dip[i]),
            "tolerated": None
            if pressure.tolerated is None
            else _interval(pressure.tolerated.at(i)),
            "is_crossed": bool(pressure.crossed[i]),
        }
        for i, source in enumerate(SOURCES)
    ]


def _neighbours(case: Case, names: Names) -> list[dict[str, Any]]:
    return [
        {
            "job": other.job if other.job in names.jobs else None,
            "name": names.job(other.job),
            "server": names.server(other.server),
            "units": other.units,
            "from_seconds": other.from_s,
            "to_seconds": None if math.isinf(other.to_s) else other.to_s,
        }
        for other in case.others
    ]


def _prediction(remedy: Remedy | None) -> dict[str, Any] | None:
    if remedy is None or remedy.predicted is None:
        return None
    return {
        "predicted": _interval(remedy.predicted),
        "probability_met": remedy.probability,
    }


def _interval(estimate: Estimate) -> dict[str, float]:
    return {"value": estimate.value, "low": estimate.low, "high": estimate.high}
