"""The markers of methods as SVG paths of radius one, so that a page needs no drawing library to show them."""

import math


def marker_path(marker: str) -> str:
    """The outline of a marker as figures know it by its letter; a circle for any that is not known.

    >>> marker_path("s")
    'M-0.89,-0.89 L0.89,-0.89 L0.89,0.89 L-0.89,0.89 Z'
    """
    points = _OUTLINES.get(marker)
    return _CIRCLE if points is None else "M" + " L".join(f"{x:g},{y:g}" for x, y in points) + " Z"


Outline = tuple[tuple[float, float], ...]

_CIRCLE = "M-1,0 A1,1 0 1,1 1,0 A1,1 0 1,1 -1,0 Z"


def _regular(n_corners: int, *, turned: float = 0.0, size: float = 1.15) -> Outline:
    """A regular polygon with a corner at the top, turned by a part of a full turn."""
    angles = [2 * math.pi * (corner / n_corners + turned) for corner in range(n_corners)]
    return tuple((round(size * math.sin(angle), 2), round(-size * math.cos(angle), 2)) for angle in angles)


def _star() -> Outline:
    outer, inner = _regular(5, size=1.35), _regular(5, turned=0.1, size=0.6)
    return tuple(point for pair in zip(outer, inner, strict=True) for point in pair)


def _cross(arm: float = 0.4, reach: float = 1.1) -> Outline:
    corners = ((-arm, -reach), (arm, -reach), (arm, -arm))
    quarters: list[Outline] = [corners]
    for _ in range(3):
        quarters.append(tuple((-y, x) for x, y in quarters[-1]))
    return tuple(point for quarter in quarters for point in quarter)


def _turned(points: Outline) -> Outline:
    """By an eighth of a turn."""
    root = math.sqrt(0.5)
    return tuple((round(root * (x - y), 2) + 0.0, round(root * (x + y), 2) + 0.0) for x, y in points)


_SIDE = 0.89

_OUTLINES: dict[str, Outline] = {
    "s": ((-_SIDE, -_SIDE), (_SIDE, -_SIDE), (_SIDE, _SIDE), (-_SIDE, _SIDE)),
    "D": ((0, -1.25), (1.25, 0), (0, 1.25), (-1.25, 0)),
    "d": ((0, -1.35), (0.85, 0), (0, 1.35), (-0.85, 0)),
    "^": _regular(3, size=1.3),
    "v": _regular(3, turned=0.5, size=1.3),
    "<": _regular(3, turned=0.75, size=1.3),
    ">": _regular(3, turned=0.25, size=1.3),
    "p": _regular(5),
    "h": _regular(6),
    "*": _star(),
    "P": _cross(),
    "X": _turned(_cross()),
}
