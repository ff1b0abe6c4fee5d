"""What came of a plan, in one sentence: realised against predicted.

Measures are those of `live.as_json`: watts (less is better), diversity (more), crossing (less), F.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

LEAST: Final = {"watts": 0.5, "diversity": 0.005, "crossing": 0.5}  # below: no change


@dataclass(frozen=True, slots=True)
class Ended:
    """A plan whose moves have ended.

    Attributes
    ----------
    predicted : "before" and "after" as it was made
    realised : "before" as it would be had nothing moved, and "after", each empty where nothing
        was done; "arrived" and "left" jobs meanwhile; "gone" containers that were moved, and have
        ended since
    done, failed, asked : moves; the rest of those asked for was passed over or cancelled
    """

    predicted: Mapping[str, Any]
    realised: Mapping[str, Any]
    done: int = 0
    failed: int = 0
    asked: int = 0


def saved(change: Mapping[str, Any], name: str) -> float:
    """By how much a measure fell; 0 where it was not measured."""
    before, after = change.get("before") or {}, change.get("after") or {}
    return float(before.get(name, 0.0) - after.get(name, 0.0))


def realised_share(ended: Ended) -> float | None:
    """Return the realised gain of F over the predicted one; None where none was predicted."""
    wanted = saved(ended.predicted, "F")
    return saved(ended.realised, "F") / wanted if wanted > 1e-9 else None


def verdict(ended: Ended) -> str:
    """Say how a plan turned out."""
    if not ended.done:
        return _nothing(ended)
    share = realised_share(ended)
    parts = [] if share is None else [f"{_plain(100.0 * share, 0)} % of the gain predicted"]
    parts += [said for said in (_power(ended), _apart(ended), _gathered(ended)) if said]
    parts += [_moves(ended), *_meanwhile(ended.realised)]
    sentence = "; ".join(parts)
    return f"{sentence[0].upper()}{sentence[1:]}.".replace("-", "−")


def _nothing(ended: Ended) -> str:
    moves = f"{ended.asked:,} {_plural('move', ended.asked)}"
    if ended.failed:
        return f"Nothing was moved: {ended.failed:,} of {moves} failed."
    return f"Nothing was moved: none of {moves} was made, as its job had ended or was left alone."


def _moves(ended: Ended) -> str:
    done = f"{ended.done:,} of {ended.asked:,} {_plural('move', ended.asked)} done"
    gone = ended.realised.get("gone", 0)
    return f"{done}, of which {gone:,} ended since" if gone else done


def _power(ended: Ended) -> str:
    wanted, got = saved(ended.predicted, "watts"), saved(ended.realised, "watts")
    if abs(wanted) < LEAST["watts"]:
        if abs(got) < LEAST["watts"]:
            return ""
        return f"power: {_change(-got, 0)} W where none was predicted"
    if _is_opposite(wanted, got, "watts"):
        return f"power: {_change(-got, 0)} W where {_change(-wanted, 0)} W was predicted"
    verb, sign = ("saved", 1.0) if wanted > 0 else ("costs", -1.0)
    if max(abs(wanted), abs(got)) >= 1000.0:
        shown = f"{_plain(sign * got / 1e3, 1)} of {_plain(sign * wanted / 1e3, 1)} kW"
    else:
        shown = f"{_plain(sign * got, 0)} of {_plain(sign * wanted, 0)} W"
    return f"power: {verb} {shown} predicted"


def _apart(ended: Ended) -> str:
    wanted, got = -saved(ended.predicted, "diversity"), -saved(ended.realised, "diversity")
    if abs(wanted) < LEAST["diversity"]:
        return ""
    if abs(got) < LEAST["diversity"]:
        return f"diversity: as before where {_change(wanted, 2)} was predicted"
    return f"diversity: {_change(got, 2)} of {_change(wanted, 2)}"


def _gathered(ended: Ended) -> str:
    wanted, got = saved(ended.predicted, "crossing"), saved(ended.realised, "crossing")
    if abs(wanted) < LEAST["crossing"]:
        return ""
    if _is_opposite(wanted, got, "crossing"):
        return f"crossing traffic: {_change(-got, 0)} where {_change(-wanted, 0)} was predicted"
    noun = _plural("container", abs(round(wanted)))
    where, sign = ("brought to their job", 1.0) if wanted > 0 else ("parted from their job", -1.0)
    counted = f"{_plain(sign * got, 0)} of {_plain(sign * wanted, 0)}"
    return f"crossing traffic: {counted} {noun} {where}"


def _is_opposite(wanted: float, got: float, name: str) -> bool:
    """Whether what came is no share of what was predicted."""
    return wanted * got < 0.0 and abs(got) >= LEAST[name]


def _meanwhile(realised: Mapping[str, Any]) -> list[str]:
    arrived, left = realised.get("arrived", 0), realised.get("left", 0)
    told = []
    if arrived:
        told.append(f"{arrived:,} {_plural('job', arrived)} came")
    if left:
        told.append(f"{left:,} ended")
    return [f"{' and '.join(told)} meanwhile"] if told else []


def _plain(value: float, digits: int) -> str:
    """Return a number as it is rounded; what rounds to nothing has no sign."""
    return f"{value:,.{digits}f}" if round(abs(value), digits) else f"{0:.{digits}f}"


def _change(value: float, digits: int) -> str:
    return f"{'+' if value >= 0 else '−'}{abs(value):,.{digits}f}"


def _plural(noun: str, number: float) -> str:
    return noun if number == 1 else f"{noun}s"
