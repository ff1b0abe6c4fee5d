"""The report of a profile: plain values for JSON, its digest and its signature."""

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from apps.profiling.core.sensitivity import Point, Sensitivity
from apps.profiling.core.stressors import Stressor

FORMAT: Final = "berth-profile-1"
ALGORITHM: Final = "hmac-sha256"
MIN_KEY_BYTES: Final = 32


class UntrustedReportError(Exception):
    """A report whose digest or signature does not match; the message says which."""


@dataclass(frozen=True, slots=True)
class SourceReport:
    """One row of a profile.

    Attributes
    ----------
    alone : what the stressor achieves alone, such as "12 GB/s"
    stressor_speed : its speed next to the program, relative to that; None if it never ran
    """

    stressor: Stressor
    found: Sensitivity
    alone: str = ""
    stressor_speed: float | None = None

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        found = self.found
        return {
            "stressor": self.stressor.name,
            "source": self.stressor.source or None,
            "side": self.stressor.side.value,
            "basis": self.stressor.basis.value,
            "state": found.state.value,
            "reason": found.reason or None,
            "score": found.score,
            "low": found.low,
            "high": found.high,
            "points": [_point(point) for point in found.points],
            "rejected_pairs": found.rejected,
            "stressor_alone": self.alone or None,
            "stressor_speed": self.stressor_speed,
        }


def _point(point: Point) -> dict[str, Any]:
    return {
        "intensity": point.intensity,
        "pairs": point.effect.pairs,
        "speed": [point.effect.ratio, point.effect.low, point.effect.high],
        "wall_speed": [point.wall.ratio, point.wall.low, point.wall.high],
    }


def seal(report: Mapping[str, Any], key: bytes | None) -> dict[str, Any]:
    """Return a report with its digest, and with a signature if there is a key.

    Raises
    ------
    ValueError : the key is shorter than 32 bytes.
    """
    text = canonical(report)
    sealed = {**report, "digest": "sha256:" + hashlib.sha256(text).hexdigest()}
    if key is not None:
        sealed["signature"] = {"algorithm": ALGORITHM, "value": _sign(text, key)}
    return sealed


def verify(sealed: Mapping[str, Any], key: bytes | None) -> dict[str, Any]:
    """Return a report without its seal, if the seal holds.

    Parameters
    ----------
    key : that must have signed it; None checks the digest only, which anybody can compute

    Raises
    ------
    UntrustedReportError : digest or signature do not match, or the signature is missing.
    ValueError : the key is shorter than 32 bytes.
    """
    report = {name: sealed[name] for name in sealed if name not in ("digest", "signature")}
    text = canonical(report)
    if sealed.get("digest") != "sha256:" + hashlib.sha256(text).hexdigest():
        raise UntrustedReportError("the digest does not match the report")
    if key is not None:
        signature = sealed.get("signature")
        if not isinstance(signature, dict) or signature.get("algorithm") != ALGORITHM:
            raise UntrustedReportError(f"the report has no {ALGORITHM} signature")
        if not hmac.compare_digest(str(signature.get("value")), _sign(text, key)):
            raise UntrustedReportError("the signature is not of this key")
    return report


def canonical(report: Mapping[str, Any]) -> bytes:
    """Return the bytes that are signed: JSON with sorted names and no white space."""
    return json.dumps(
        report, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    ).encode()


def _sign(text: bytes, key: bytes) -> str:
    if len(key) < MIN_KEY_BYTES:
        raise ValueError(f"a key has at least {MIN_KEY_BYTES} bytes, this one has {len(key)}")
    return hmac.new(key, text, hashlib.sha256).hexdigest()
