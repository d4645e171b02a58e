"""Measurements -> gates kept or not, a table for the terminal, Markdown, or one HTML file that needs nothing else."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Final

from headwater.errors import UsageError
from headwater.evaluate.metrics import METRICS, Interval, interval
from headwater.evaluate.run import Measurement

FIGURES: Final = (*METRICS, "queries", "p50_ms", "p95_ms")
HEADLINE: Final = "ndcg@10"
COLOURS: Final = {"keyword": "#b4690e", "semantic": "#1f77b4", "hybrid": "#2b8a3e"}
COMPARISONS: Final = {
    ">=": lambda got, wanted: got >= wanted,
    "<=": lambda got, wanted: got <= wanted,
    ">": lambda got, wanted: got > wanted,
    "<": lambda got, wanted: got < wanted,
}

Measured = Mapping[str, Mapping[str, Measurement]]  # set -> mode -> measurement


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """A figure that has to be reached."""

    figure: str
    comparison: str
    wanted: float

    def kept(self, measurement: Measurement) -> bool:
        """Whether a measurement reaches it."""
        return bool(COMPARISONS[self.comparison](measurement.summary[self.figure], self.wanted))

    def __str__(self) -> str:
        return f"{self.figure}{self.comparison}{self.wanted:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How much better a mode of a set became, query by query."""

    set_name: str
    mode: str
    figure: str
    interval: Interval

    @property
    def verdict(self) -> str:
        """In a word, whether chance would do as an explanation."""
        if self.interval.low > 0:
            return "better"
        return "worse" if self.interval.high < 0 else "no clear difference"


def parse_gate(text: str) -> Gate:
    """`ndcg@10>=0.7` -> a gate; what is no such thing is refused with what could be said."""
    found = re.fullmatch(r"\s*([a-z0-9_@]+)\s*(>=|<=|>|<)\s*(-?[0-9]*\.?[0-9]+)\s*", text.lower())
    if found is None or found[1] not in FIGURES:
        raise UsageError(
            f"a gate is a figure, >=, >, <= or <, and a number; got {text!r}; figures: {', '.join(FIGURES)}"
        )
    return Gate(figure=found[1], comparison=found[2], wanted=float(found[3]))


def shape(measured: Measured, differences: Sequence[Difference] = ()) -> dict[str, Any]:
    """What `eval --json` prints: set -> mode -> figures. A comparison stands under `compare`."""
    found: dict[str, dict[str, Any]] = {
        name: {mode: dict(measurement.summary) for mode, measurement in modes.items()}
        for name, modes in measured.items()
    }
    for one in differences:
        spread = {"difference": one.interval.mean, "low": one.interval.low, "high": one.interval.high}
        found[one.set_name][one.mode].setdefault("compare", {})[one.figure] = spread
    return found


def differences(before: Measured, after: Measured, *, figures: Sequence[str] = METRICS) -> list[Difference]:
    """What the second has over the first, for every set and mode of both, paired by query."""
    return [
        Difference(set_name=name, mode=mode, figure=figure, interval=_paired(before[name][mode], one, figure))
        for name, modes in after.items()
        for mode, one in modes.items()
        if mode in before.get(name, {})
        for figure in figures
    ]


def _paired(before: Measurement, after: Measurement, figure: str) -> Interval:
    pairs = zip(before.values(figure), after.values(figure), strict=True)
    return interval([new - old for old, new in pairs])


def markdown(measured: Measured, *, intervals: bool = True) -> str:
    """A row for every set and mode; the best mode of a set in bold; the 95 % interval of the headline figure."""
    spread = f" {HEADLINE} 95 % |" if intervals else ""
    head = f"| set | mode | {' | '.join(FIGURES)} |{spread}"
    lines = [head, f"|---|---|{'---:|' * len(FIGURES)}{'---|' if intervals else ''}"]
    for name, modes in measured.items():
        best = max(modes.values(), key=lambda one: one.summary[HEADLINE]).mode
        for mode, one in modes.items():
            cells = [_figure(figure, one.summary[figure]) for figure in FIGURES]
            if mode == best and len(modes) > 1:
                cells[0] = f"**{cells[0]}**"
            found = interval(one.values(HEADLINE))
            end = f" {found.low:.3f} to {found.high:.3f} |" if intervals else ""
            lines.append(f"| {name} | {mode} | {' | '.join(cells)} |{end}")
    return "\n".join(lines)


def markdown_differences(found: Sequence[Difference], *, before: str, after: str) -> str:
    """A row for every set and mode that was compared."""
    lines = [
        f"Difference in {HEADLINE}, `{after}` over `{before}`, with its 95 % interval (paired bootstrap).",
        "",
        "| set | mode | difference | 95 % | |",
        "|---|---|---:|---|---|",
    ]
    for one in found:
        if one.figure == HEADLINE:
            spread = one.interval
            cells = (one.set_name, one.mode, f"{spread.mean:+.4f}", f"{spread.low:+.4f} to {spread.high:+.4f}")
            lines.append(f"| {' | '.join(cells)} | {one.verdict} |")
    return "\n".join(lines)


def between_markers(page: Path, name: str, text: str) -> None:
    """Put a text between `<!-- name -->` and `<!-- /name -->` of a page, in the place of what stands there."""
    start, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    before, found, rest = page.read_text(encoding="utf-8").partition(start)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise UsageError(f"{page} has no place for this; it needs the lines {start} and {end}")
    page.write_text(f"{before}{start}\n{text}\n{end}{after}", encoding="utf-8")


def _figure(name: str, value: float) -> str:
    if name == "queries":
        return f"{value:,.0f}"
    return f"{value:.1f}" if name.endswith("_ms") else f"{value:.3f}"


# ----------------------------------------------------------------------------------------------- html


def html(measured: Measured, *, facts: Mapping[str, str], comparison: str = "", gates: Sequence[str] = ()) -> str:
    """The whole report as one page: facts, gates, a picture and a table for each set, the worst queries."""
    parts = [_facts(facts), _list("Gates", gates)]
    if comparison:
        parts.append(f"<h2>Comparison</h2>{_html_table(comparison)}")
    for name, modes in measured.items():
        parts.append(f"<h2>{escape(name)}</h2>{_bars(modes)}{_latencies(modes)}")
        parts.append(_html_table(markdown({name: modes})))
        parts += [_worst(mode, one) for mode, one in modes.items()]
    return PAGE.replace("@BODY@", "\n".join(parts))


PAGE: Final = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>headwater eval</title>
<meta name="viewport" content="width=device-width">
<style>
body{font:15px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem;color:#222;background:#fff}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:13px;display:block;overflow-x:auto}
td,th{border-bottom:1px solid #ddd;padding:.2rem .6rem;text-align:left}
svg{max-width:100%;height:auto;margin:.5rem 1rem 0 0}
code{background:#f4f4f4;padding:0 .2rem} summary{cursor:pointer} text{font:11px system-ui,sans-serif;fill:#222}
</style>
<h1>headwater eval</h1>
@BODY@
</html>
"""
WORST: Final = 20  # queries listed: enough to see what goes wrong, few enough to read


def _facts(facts: Mapping[str, str]) -> str:
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in facts.items())
    return f"<table>{rows}</table>"


def _list(title: str, lines: Sequence[str]) -> str:
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<h2>{title}</h2><ul>{items}</ul>" if lines else ""


def _html_table(text: str) -> str:
    """A Markdown table, and the words above it, as HTML."""
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|") and "|---" not in line]
    words = " ".join(line for line in text.splitlines() if line and not line.startswith("|"))
    cells = ["".join(f"<{'td' if number else 'th'}>{_bold(cell)}</{'td' if number else 'th'}>" for cell in row)
             for number, row in enumerate(rows)]  # fmt: skip
    return f"<p>{escape(words)}</p><table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"


def _bold(cell: str) -> str:
    return re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", escape(cell.strip()))


def _bars(modes: Mapping[str, Measurement]) -> str:
    """The metrics side by side, a bar for each mode."""
    thick, gap, left, wide = 10, 12, 90, 400
    lines, top = [], 4
    for metric in METRICS:
        middle = top + thick * len(modes) / 2 + 4
        lines.append(f'<text x="{left - 6}" y="{middle:.0f}" text-anchor="end">{metric}</text>')
        for mode, one in modes.items():
            value = float(one.summary[metric])
            lines.append(
                f'<rect x="{left}" y="{top}" width="{value * wide:.1f}" height="{thick - 1}" fill="{COLOURS[mode]}"/>'
            )
            lines.append(f'<text x="{left + value * wide + 4:.1f}" y="{top + thick - 2}">{value:.3f}</text>')
            top += thick
        top += gap
    return _svg(left + wide + 50, top, lines, f"Metrics of {', '.join(modes)}") + _legend(modes)


def _latencies(modes: Mapping[str, Measurement]) -> str:
    """How many queries were done after how long: one line for each mode."""
    wide, high, left, low = 300, 110, 34, 16
    longest = max(float(one.summary["p95_ms"]) for one in modes.values()) * 1.5 or 1.0
    lines = [f'<path d="M{left} 4V{high}H{left + wide}" fill="none" stroke="#999"/>']
    lines += [f'<text x="{left - 4}" y="{high - share * (high - 8) + 4:.0f}" text-anchor="end">{share:.0%}</text>'
              for share in (0, 0.5, 1)]  # fmt: skip
    lines.append(f'<text x="{left + wide}" y="{high + 13}" text-anchor="end">{longest:.1f} ms</text>')
    for mode, one in modes.items():
        took = sorted(row.milliseconds for row in one.rows)
        points = [(min(took[int(share * (len(took) - 1) / 100)] / longest, 1.0), share / 100) for share in range(101)]
        path = " ".join(f"{left + x * wide:.1f},{high - y * (high - 8):.1f}" for x, y in points)
        lines.append(f'<polyline points="{path}" fill="none" stroke="{COLOURS[mode]}" stroke-width="1.5"/>')
    return _svg(left + wide + 10, high + low, lines, "Share of queries answered within a time")


def _svg(width: float, height: float, lines: Sequence[str], label: str) -> str:
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    return f'<svg {size} role="img" aria-label="{label}">{"".join(lines)}</svg>'


def _legend(modes: Mapping[str, Measurement]) -> str:
    names = " ".join(f'<span style="color:{COLOURS[mode]}">■</span> {mode}' for mode in modes)
    return f"<p>{names}</p>"


def _worst(mode: str, one: Measurement) -> str:
    rows = sorted(one.rows, key=lambda row: (row.metrics[HEADLINE], row.query_id))[:WORST]
    cells = "".join(
        f"<tr><td>{escape(row.query_id)}</td><td>{row.metrics[HEADLINE]:.3f}</td>"
        f"<td>{escape(', '.join(row.ranking[:5]))}</td></tr>"
        for row in rows
    )
    head = "<tr><th>query</th><th>" + HEADLINE + "</th><th>found</th></tr>"
    return f"<details><summary>Worst queries, {mode}</summary><table>{head}{cells}</table></details>"
