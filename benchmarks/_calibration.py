"""Calibration loop: fixed work, timed with every benchmark to reveal a busy machine."""

import time
from typing import Final

import numpy as np

ROUNDS: Final = 5
LOOPS: Final = 1_000_000
SIZE: Final = 400


def calibrate() -> float:
    """Return the median time of five rounds of a fixed loop and matrix product, in ms."""
    return sorted(_round() for _ in range(ROUNDS))[ROUNDS // 2]


def _round() -> float:
    matrix = np.linspace(0.0, 1.0, SIZE * SIZE).reshape(SIZE, SIZE)
    began = time.perf_counter()
    total = 0
    for number in range(LOOPS):
        total += number & 7
    total += int((matrix @ matrix).sum())
    return (time.perf_counter() - began) * 1e3 if total else 0.0


def calibration_line(before_ms: float, after_ms: float) -> str:
    """Return the line with both calibration times that every benchmark prints."""
    return f"calibration loop {before_ms:.0f} ms before, {after_ms:.0f} ms after"
