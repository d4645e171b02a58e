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
from datetime import date
from importlib.metadata import version
from pathlib import Path

from headwater import config as settings
from headwater.evaluate.dataset import find_sets, read_set
from headwater.evaluate.report import HEADLINE, Measured, between_markers, differences, markdown
from headwater.evaluate.run import MODES, Measurement, indexed, make_embedder, measure

SHOWN = ("retrieve.fusion", "retrieve.keyword_weight", "retrieve.semantic_weight", "retrieve.candidates")
PLAIN = {"rerank": ""}
PARTS = ("numpy", "tantivy", "turbovec", "rjieba", "PyStemmer")


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


def reranking(fused: Measured, reranked: Measured, precise: Measured) -> str:
    """The reranker over the fused order, with intervals, and the first hits of both presets."""
    lines = [
        "| set | fused | reranked | difference | 95 % | MRR@10 fused | balanced | precision | p95 ms |",
        "|---|---:|---:|---:|---|---:|---:|---:|---:|",
    ]
    gains = []
    for one in differences(fused, reranked, figures=[HEADLINE]):
        before, after, few = (figures[one.set_name]["hybrid"].summary for figures in (fused, reranked, precise))
        gains.append(one.interval.mean)
        cells = (
            one.set_name,
            f"{before[HEADLINE]:.3f}",
            f"{after[HEADLINE]:.3f}",
            f"{one.interval.mean:+.4f}",
            f"{one.interval.low:+.4f} to {one.interval.high:+.4f}",
            *(f"{figures['mrr@10']:.3f}" for figures in (before, after, few)),
            f"{after['p95_ms']:.0f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", f"On average {sum(gains) / len(gains):+.4f}, at worst {min(gains):+.4f}."]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", type=Path)
    parser.add_argument("--embed", default="", help="the embedder; that of the settings else")
    parser.add_argument("--work", type=Path, default=settings.cache_folder() / "eval")
    parser.add_argument("--write", type=Path, default=Path("docs/evaluation.md"))
    arguments = parser.parse_args()
    if arguments.embed:
        os.environ["HEADWATER_EMBED__USE"] = arguments.embed
    home = settings.default_home()
    config = settings.load(home)
    embedder = make_embedder(config, home=home)
    precision = {
        name.partition(".")[2]: setting.value
        for name, setting in settings.read_preset("precision").items()
        if name.startswith("retrieve.")
    }
    measured: dict[str, dict[str, Measurement]] = {}
    reranked: dict[str, dict[str, Measurement]] = {}
    precise: dict[str, dict[str, Measurement]] = {}
    for folder in find_sets(arguments.sets):
        found = read_set(folder)
        with indexed(found, config, work=arguments.work, embedder=embedder) as kb:
            measured[found.name] = {mode: measure(kb, found, mode, options=PLAIN) for mode in MODES}
            reranked[found.name] = {"hybrid": measure(kb, found, "hybrid")}
            precise[found.name] = {"hybrid": measure(kb, found, "hybrid", options=precision)}
        figures = ", ".join(f"{mode} {one.summary[HEADLINE]:.4f}" for mode, one in measured[found.name].items())
        figures += f", reranked {reranked[found.name]['hybrid'].summary[HEADLINE]:.4f}"
        print(f"{found.name}: {figures}", flush=True)
    in_force = {**settings.defaults(), **config.settings}
    chosen = ", ".join(f"`{name} = {in_force[name].value}`" for name in SHOWN)
    versions = ", ".join(f"{name} {version(name)}" for name in PARTS)
    told = [
        f"Measured on {date.today().isoformat()} with headwater {version('headwater')}, embedder "
        f"`{embedder.fingerprint}`, preset `{in_force['preset'].value}` ({chosen}), text index boosts "
        f"`{in_force['text_index.boosts'].value if 'text_index.boosts' in in_force else 'of the code'}`.",
        f"Python {platform.python_version()}, {versions}; {os.cpu_count()} cores.",
        "",
        beside(measured, baselines(arguments.sets / "README.md")),
        "",
        "All figures. Latencies are those of one search after the other, with a page of hits read and marked.",
        "",
        markdown(measured),
    ]
    between_markers(arguments.write, "figures", "\n".join(told))
    between_markers(arguments.write, "reranking", reranking(measured, reranked, precise))


if __name__ == "__main__":
    main()
