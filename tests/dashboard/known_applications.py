"""Applications with profiles, drift and prediction errors."""

from apps.classification.models import Drift, PredictionError, Profile
from apps.workloads.models import Application
from tests import factories

PLATFORMS = ("J", "A")


def known(name: str = "web", *, kind: str = "latency_critical") -> Application:
    """Return an application with a profile on two platforms."""
    about = factories.application(name, kind=kind)
    factories.profile(about, platforms=PLATFORMS)
    return about


def drifted(about: Application, *, since_s: float = 3600.0, mean_error: float = -0.28) -> Drift:
    return Drift.objects.create(
        application=about, observations=9, mean_error=mean_error, flagged_s=since_s
    )


def compared(about: Application, *, ratio: float, at_s: float = 4000.0) -> PredictionError:
    job = factories.job(application=about, state="running")
    return PredictionError.objects.create(
        application=about,
        job=job,
        profile=Profile.objects.get(application=about, is_current=True),
        number=1,
        cluster_s=at_s,
        predicted=100.0,
        measured=100.0 * ratio,
        deviation=0.1,
    )
