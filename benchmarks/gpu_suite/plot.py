"""A picture of the trainings: bars of how much faster than float32 each arm is, as SVG text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from gpu_suite.arms import ARMS, PLAIN
from gpu_suite.figures import Figure

_WIDTH, _ROW, _LEFT, _RIGHT = 720, 20, 170, 60
# Of the Okabe-Ito palette, which is told apart without colour vision too.
_PALETTE = ("#999999", "#0072b2", "#56b4e9", "#e69f00", "#009e73", "#cc79a7")
_COLOURS = dict(zip([arm.name for arm in ARMS if arm.name != PLAIN], _PALETTE, strict=True))


def bars(figures: Sequence[Figure]) -> str:
    """The picture; the line at 1 is float32."""
    shown = [each for each in figures if each.arm in _COLOURS and each.speedup is not None]
    longest = max((each.speedup.mean for each in shown if each.speedup), default=1.0)
    unit = (_WIDTH - _LEFT - _RIGHT) / max(longest, 1.0)
    lines = list(_lines(shown, unit))
    height = _height(shown)
    style = 'font-family="sans-serif" font-size="12"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" {style}>'
    back = f'<rect width="{_WIDTH}" height="{height}" fill="white"/>'
    one = _LEFT + unit
    mark = f'<line x1="{one:.1f}" y1="8" x2="{one:.1f}" y2="{height - 8}" stroke="black" stroke-dasharray="3 3"/>'
    return "\n".join([head, back, *lines, mark, "</svg>", ""])


def _height(shown: Sequence[Figure]) -> int:
    return _ROW * (len(shown) + 2 * len({each.workload for each in shown}))


def _lines(shown: Sequence[Figure], unit: float) -> Iterator[str]:
    top = 0
    for workload in dict.fromkeys(each.workload for each in shown):
        top += 2 * _ROW
        yield f'<text x="8" y="{top - 6}" font-weight="bold">{escape(workload)}</text>'
        for each in shown:
            if each.workload == workload and each.speedup is not None:
                width = each.speedup.mean * unit
                yield f'<text x="{_LEFT - 6}" y="{top + 14}" text-anchor="end">{escape(each.arm)}</text>'
                yield f'<rect x="{_LEFT}" y="{top + 3}" width="{width:.1f}" height="14" fill="{_COLOURS[each.arm]}"/>'
                yield f'<text x="{_LEFT + width + 4:.1f}" y="{top + 14}">{each.speedup.mean:.2f}x</text>'
                top += _ROW
