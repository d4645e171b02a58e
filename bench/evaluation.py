"""Measures every test set in all modes and writes the figures into docs/evaluation.md. `make eval SETS=FOLDER` runs it.

The modes are measured without a reranker, so that the legs are the legs; then the preset with its reranker, and the
preset `precision`, each beside the fused order it started from.

Where the folder has a README.md with a table of other systems' figures on the same sets (columns `set`, `system`,
`nDCG@10`), the best BM25 among them and the best of all stand beside ours.
"""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Mapping
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, NamedTuple

from headwater import config as settings
from headwater.evaluate.dataset import find_sets, read_set
from headwater.evaluate.report import HEADLINE, Measured, between_markers, differences, interval, markdown
from headwater.evaluate.run import Measurement, indexed, make_embedder, measure
from headwater.places import cache_folder, default_home
from headwater.protocols import Embedder
from headwater.types import Mode

SHOWN = ("retrieve.fusion", "retrieve.keyword_weight", "retrieve.semantic_weight", "retrieve.candidates")
# A machine that is busy with other things makes searches late, and must not make them worse.
PATIENT = {"deadline_seconds": 600.0}
PLAIN = {**PATIENT, "rerank": ""}
PLAIN_MODES: Final[Mapping[str, Mode]] = {"keyword": "keyword", "semantic": "semantic", "fused": "hybrid"}
STRONGER: Final = ("m3e", "minilm")  # embedders of the other systems that are transformers
PARTS = ("numpy", "tantivy", "turbovec", "rjieba", "PyStemmer")


class Figures(NamedTuple):
    """One set: each leg and both fused, without a reranker; then two presets as they are."""

    keyword: Measurement
    semantic: Measurement
    fused: Measurement
    balanced: Measurement
    precision: Measurement


def baselines(readme: Path) -> dict[str, dict[str, float]]:
    """Set -> system -> nDCG@10, from a table; nothing where there is none."""
    found: dict[str, dict[str, float]] = {}
    columns: list[str] = []
    for line in readme.read_text(encoding="utf-8").splitlines() if readme.exists() else ():
        cells = [cell.strip() for cell in line.strip("| ").split("|")]
        if "system" in cells and "nDCG@10" in cells:
            columns = cells
        elif columns and len(cells) == len(columns) and not set(cells[0]) <= set("-:"):
            row = dict(zip(columns, cells, strict=True))
            found.setdefault(row["set"], {})[row["system"]] = float(row["nDCG@10"])
        elif not line.startswith("|"):
            columns = []
    return found


def beside(measured: Measured, others: dict[str, dict[str, float]]) -> str:
    """Our headline figures next to the others', and how the hybrid stands to its legs."""
    head = "| set | keyword | best BM25 of others | semantic | hybrid | hybrid over its better leg | best of others |"
    lines = [head, "|---|---:|---:|---:|---:|---:|---|"]
    for name, modes in measured.items():
        ours = {mode: float(one.summary[HEADLINE]) for mode, one in modes.items()}
        known = others.get(name, {})
        words = [figure for system, figure in known.items() if system.startswith("bm25")]
        best = max(known, key=lambda system: known[system], default="")
        over = ours["hybrid"] - max(ours["keyword"], ours["semantic"])
        cells = (
            name,
            f"{ours['keyword']:.3f}",
            f"{max(words):.3f}" if words else "",
            f"{ours['semantic']:.3f}",
            f"{ours['hybrid']:.3f}",
            f"{over:+.4f}",
            f"{known[best]:.3f} ({best})" if best else "",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def reranking(measured: Mapping[str, Figures]) -> str:
    """The reranker over the fused order, with intervals, and the first hits of both presets."""
    lines = [
        "| set | fused | `balanced` | difference | 95 % | MRR@10 fused | `balanced` | `precision` | p95 ms |",
        "|---|---:|---:|---:|---|---:|---:|---:|---:|",
    ]
    fused, balanced, precise = (
        {name: {"hybrid": getattr(one, field)} for name, one in measured.items()}
        for field in ("fused", "balanced", "precision")
    )
    gains = []
    for one in differences(fused, balanced, figures=[HEADLINE]):
        before, after, few = (figures[one.set_name]["hybrid"].summary for figures in (fused, balanced, precise))
        gains.append(one.interval.mean)
        cells = (
            one.set_name,
            f"{before[HEADLINE]:.3f}",
            f"{after[HEADLINE]:.3f}",
            f"{one.interval.mean:+.4f}",
            f"{one.interval.low:+.4f} to {one.interval.high:+.4f}",
            *(f"{figures['mrr@10']:.4f}" for figures in (before, after, few)),
            f"{after['p95_ms']:.0f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", f"On average {sum(gains) / len(gains):+.4f}, at worst {min(gains):+.4f}."]
    return "\n".join(lines)


def standing(measured: Mapping[str, Figures], others: Mapping[str, Mapping[str, float]]) -> str:
    """The preset as people get it, with intervals, against its legs and against all that needs no better embedder."""
    lines = [
        "| set | `balanced` | 95 % | over its better leg | best of BM25 and wordllama | over it "
        "| MRR@10 of `precision` over its own |",
        "|---|---:|---|---:|---|---:|---:|",
    ]
    for name, one in measured.items():
        ours = float(one.balanced.summary[HEADLINE])
        spread = interval(one.balanced.values(HEADLINE))
        known = {
            system: figure
            for system, figure in others.get(name, {}).items()
            if not any(stronger in system for stronger in STRONGER)
        }
        best = max(known, key=lambda system: known[system], default="")
        legs = max(float(leg.summary[HEADLINE]) for leg in (one.keyword, one.semantic))
        first = float(one.precision.summary["mrr@10"]) - float(one.balanced.summary["mrr@10"])
        cells = (
            name,
            f"{ours:.3f}",
            f"{spread.low:.3f} to {spread.high:.3f}",
            f"{ours - legs:+.4f}",
            f"{known[best]:.3f} ({best})" if best else "",
            f"{ours - known[best]:+.3f}" if best else "",
            f"{first:+.4f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def measured_set(folder: Path, config: settings.Config, *, work: Path, embedder: Embedder) -> Figures:
    """Every query of a set: by each leg, fused, and with the two presets."""
    found = read_set(folder)
    with indexed(found, config, work=work, embedder=embedder) as kb:
        made = Figures(
            **{field: measure(kb, found, mode, options=PLAIN) for field, mode in PLAIN_MODES.items()},
            balanced=measure(kb, found, "hybrid", options=PATIENT),
            precision=measure(kb, found, "hybrid", options={**options_of("precision"), **PATIENT}),
        )
    told = (f"{field} {getattr(made, field).summary[HEADLINE]:.4f}" for field in Figures._fields)
    print(f"{found.name}: {', '.join(told)}", flush=True)
    return made


def options_of(preset: str) -> dict[str, Any]:
    """What a preset says about searching."""
    said = settings.read_preset(preset).items()
    return {name.partition(".")[2]: one.value for name, one in said if name.startswith("retrieve.")}


def write(page: Path, measured: Mapping[str, Figures], *, config: settings.Config, sets: Path, embedder: str) -> None:
    """All of the figures between their markers."""
    in_force = {**settings.defaults(), **config.settings}
    chosen = ", ".join(f"`{name} = {in_force[name].value}`" for name in SHOWN)
    versions = ", ".join(f"{name} {version(name)}" for name in PARTS)
    modes: Measured = {
        name: {"keyword": one.keyword, "semantic": one.semantic, "hybrid": one.fused} for name, one in measured.items()
    }
    others = baselines(sets / "README.md")
    told = [
        f"Measured on {date.today().isoformat()} with headwater {version('headwater')}, embedder `{embedder}`, preset "
        f"`{in_force['preset'].value}` ({chosen}), text index boosts "
        f"`{in_force['text_index.boosts'].value if 'text_index.boosts' in in_force else 'of the code'}`.",
        f"Python {platform.python_version()}, {versions}; {os.cpu_count()} cores, load average "
        f"{os.getloadavg()[2]:.1f} over the last quarter of an hour: latencies of a busy machine say little.",
        "",
        "nDCG@10 of the legs and of their fusion, before anything is looked at again:",
        "",
        beside(modes, others),
        "",
        "nDCG@10 of the preset as it is, the built-in reranker on top:",
        "",
        standing(measured, others),
        "",
        "All figures. Latencies are those of one search after the other, with a page of hits read and marked.",
        "",
        markdown(modes),
    ]
    between_markers(page, "figures", "\n".join(told))
    between_markers(page, "reranking", reranking(measured))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", type=Path)
    parser.add_argument("--embed", default="", help="the embedder; that of the settings else")
    parser.add_argument("--work", type=Path, default=cache_folder() / "eval")
    parser.add_argument("--write", type=Path, default=Path("docs/evaluation.md"))
    arguments = parser.parse_args()
    if arguments.embed:
        os.environ["HEADWATER_EMBED__USE"] = arguments.embed
    home = default_home()
    config = settings.load(home)
    embedder = make_embedder(config, home=home)
    measured: dict[str, Figures] = {}
    for folder in find_sets(arguments.sets):
        measured[folder.name] = measured_set(folder, config, work=arguments.work, embedder=embedder)
    write(arguments.write, measured, config=config, sets=arguments.sets, embedder=embedder.fingerprint)


if __name__ == "__main__":
    main()
