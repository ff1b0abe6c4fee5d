"""The front of the two measures with all policies on it, as a picture for docs/policies.md.

    python -m benchmarks.policy_front

Reads the stored result of `./dev bench policies` and writes docs/policy-front.svg: a panel
for each world and load, overall performance to the right and the share of jobs at 0.95 upwards,
means over the seeds. The same result gives the same bytes.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from apps.scheduling.core.registry import DEFAULT
from benchmarks._results import RESULTS, load

PICTURE: Final = Path(__file__).resolve().parents[1] / "docs" / "policy-front.svg"
PROFILES: Final = "inferred"
WIDTH, HEIGHT, LEFT, TOP, GAP = 250, 220, 48, 34, 48  # of a panel, and around it
STYLE: Final = (
    "text{font:11px system-ui,sans-serif;fill:#334155}"
    ".frame{fill:none;stroke:#94a3b8}.front{fill:none;stroke:#64748b;stroke-dasharray:4 3}"
    ".policy{fill:#94a3b8}.on{fill:#0f766e}.default{fill:#b45309}.strong{font-weight:600}"
    "@media(prefers-color-scheme:dark){text{fill:#cbd5e1}.frame{stroke:#475569}"
    ".policy{fill:#64748b}.on{fill:#2dd4bf}.default{fill:#fbbf24}}"
)


class Point(NamedTuple):
    """The means of a policy."""

    policy: str
    overall: float
    share: float


def panels(figures: Sequence[Mapping[str, Any]]) -> dict[tuple[str, float], list[Point]]:
    """Return the points of each world and load, from the runs of a stored result."""
    runs: dict[tuple[str, float], dict[str, list[tuple[float, float]]]] = {}
    for run in figures:
        if run["profiles"] == PROFILES:
            of_policy = runs.setdefault((run["world"], run["load"]), {})
            measured = (run["overall"], run["near_full_speed"])
            of_policy.setdefault(run["policy"], []).append(measured)
    return {
        key: [
            Point(policy, *np.mean(values, axis=0).tolist())
            for policy, values in of_policy.items()
        ]
        for key, of_policy in sorted(runs.items())
    }


def front(points: Sequence[Point]) -> list[Point]:
    """Return the points that no other one beats on both measures, from left to right."""
    beaten = [
        any(q.overall >= p.overall and q.share >= p.share and q[1:] != p[1:] for q in points)
        for p in points
    ]
    kept = [point for point, is_beaten in zip(points, beaten, strict=True) if not is_beaten]
    return sorted(kept, key=lambda point: (point.overall, -point.share, point.policy))


def picture(figures: Sequence[Mapping[str, Any]]) -> str:
    """Draw all panels: a row for each world, a column for each load."""
    found = panels(figures)
    worlds = list(dict.fromkeys(world for world, _ in found))
    loads = sorted({load for _, load in found})
    width = LEFT + len(loads) * (WIDTH + GAP)
    height = len(worlds) * (HEIGHT + TOP + GAP) + GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        "<title>Share of jobs at 0.95 and overall performance of every policy</title>",
        f"<style>{STYLE}</style>",
    ]
    for (world, at), points in found.items():
        x = LEFT + loads.index(at) * (WIDTH + GAP)
        y = TOP + worlds.index(world) * (HEIGHT + TOP + GAP)
        parts.append(f'<g transform="translate({x} {y})">')
        parts += _panel(f"{world}, load {at:.2f}", points)
        parts.append("</g>")
    return "\n".join([*parts, "</svg>", ""])


def _panel(title: str, points: Sequence[Point]) -> Iterator[str]:
    values = np.array([point[1:] for point in points])
    low, high = values.min(axis=0), values.max(axis=0)
    room = np.maximum(0.08 * (high - low), 1e-3)
    low, size = low - room, high - low + 2 * room

    def place(point: Point) -> tuple[float, float]:
        right, up = ((np.array(point[1:]) - low) / size).tolist()
        return WIDTH * right, HEIGHT * (1.0 - up)

    yield f'<rect class="frame" width="{WIDTH}" height="{HEIGHT}"/>'
    yield f'<text class="strong" x="0" y="-8">{title}</text>'
    yield from _axes(low, low + size)
    best = front(points)
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in map(place, best))
    yield f'<polyline class="front" points="{path}"/>'
    for point in sorted(points):
        x, y = place(point)
        kind = "default" if point.policy == DEFAULT else "on" if point in best else "policy"
        label = f"{point.policy}: overall {point.overall:.3f}, at 0.95 {point.share:.3f}"
        yield f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="4">'
        yield f"<title>{label}</title></circle>"
    for x, y, name in _labels([(*place(point), point.policy) for point in points]):
        yield f'<text x="{x:.1f}" y="{y:.1f}">{name}</text>'


def _axes(low: Any, high: Any) -> Iterator[str]:
    yield f'<text x="0" y="{HEIGHT + 14}">{low[0]:.2f}</text>'
    yield f'<text x="{WIDTH}" y="{HEIGHT + 14}" text-anchor="end">{high[0]:.2f}</text>'
    yield f'<text x="{WIDTH / 2}" y="{HEIGHT + 14}" text-anchor="middle">overall</text>'
    yield f'<text x="-5" y="{HEIGHT}" text-anchor="end">{low[1]:.2f}</text>'
    yield f'<text x="-5" y="10" text-anchor="end">{high[1]:.2f}</text>'
    turned = f'transform="translate(-12 {HEIGHT / 2}) rotate(-90)"'
    yield f'<text {turned} text-anchor="middle">at 0.95</text>'


def _labels(places: Sequence[tuple[float, float, str]]) -> Iterator[tuple[float, float, str]]:
    """Place names beside their points, where they hide nothing; the others have a title only."""
    taken = [(x - 4.0, y + 4.0, 8.0) for x, y, _ in places]
    for x, y, name in sorted(places, key=lambda each: (each[2] != DEFAULT, -each[0], -each[1])):
        hidden = [] if name == DEFAULT else taken
        width = 6.2 * len(name)
        for left in (x + 7.0, x - 7.0 - width):
            is_free = all(
                abs(y + 4.0 - b) > 11.0 or left + width < a or left > a + w for a, b, w in hidden
            )
            if is_free and left >= 0.0 and left + width <= WIDTH:
                taken.append((left, y + 4.0, width))
                yield left, y + 4.0, name
                break


def main() -> int:
    """Write the picture of the stored result."""
    PICTURE.write_text(picture(load("policies", RESULTS)["figures"]), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
