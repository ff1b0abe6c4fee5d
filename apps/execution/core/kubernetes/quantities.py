"""Quantities of Kubernetes: numbers with a binary or decimal suffix.

Source: kubernetes/kubernetes ``staging/src/k8s.io/apimachinery/pkg/api/resource/quantity.go``.
"""

import re
from decimal import ROUND_CEILING, Decimal
from typing import Final

_QUANTITY: Final = re.compile(
    r"(?P<number>[+-]?(?:\d+\.?\d*|\.\d+))(?P<suffix>[eE][+-]?\d+|[KMGTPE]i|[numkMGTPE]?)"
)
_BINARY: Final = {name + "i": Decimal(1024) ** (i + 1) for i, name in enumerate("KMGTPE")}
_DECIMAL: Final = {
    name: Decimal(10) ** power
    for name, power in zip("numkMGTPE", (-9, -6, -3, 3, 6, 9, 12, 15, 18), strict=True)
}
_LONGEST: Final = 40
_MAX_POWER: Final = 30


def read_quantity(text: object) -> Decimal:
    """Return the number that a quantity such as ``500m``, ``1.5Gi`` or ``1e3`` stands for.

    Raises
    ------
    ValueError : it is no quantity.
    """
    written = str(text)
    match = _QUANTITY.fullmatch(written) if len(written) <= _LONGEST else None
    if match is None:
        raise ValueError(f"not a quantity: {written!r:.60}")
    suffix = match["suffix"]
    number = Decimal(match["number"])
    if suffix[:1] in ("e", "E") and suffix[1:].lstrip("+-").isdigit():
        power = int(suffix[1:])
        if abs(power) > _MAX_POWER:
            raise ValueError(f"not a quantity: {written!r:.60}")
        return number * Decimal(10) ** power
    return number * (_BINARY.get(suffix) or _DECIMAL.get(suffix) or Decimal(1))


def read_millis(text: object) -> int:
    """Return a quantity in thousandths, rounded up as Kubernetes does.

    Raises
    ------
    ValueError : it is no quantity, or below 0.
    """
    return _rounded_up(read_quantity(text) * 1000, text)


def read_whole(text: object) -> int:
    """Return a quantity as a whole number, such as bytes, rounded up as Kubernetes does.

    Raises
    ------
    ValueError : it is no quantity, or below 0.
    """
    return _rounded_up(read_quantity(text), text)


def _rounded_up(number: Decimal, text: object) -> int:
    if number < 0:
        raise ValueError(f"a quantity below 0: {str(text)!r:.60}")
    return int(number.to_integral_value(rounding=ROUND_CEILING))
