"""The plugin of docs/plugins.md: it fits the contract, it can be installed, and the command line uses it."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from headwater.home import GIVEN
from headwater.protocols import VectorIndex
from headwater.registry import installed
from headwater.testing.command import headwater

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "headwater-numpy"
TEXT = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")


def test_the_example_is_installed_fits_the_contract_and_is_used(tmp_path: Path, handbook: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-index", "--no-deps"]
    place = tmp_path / "packages"
    subprocess.run([*pip, "--no-build-isolation", "--target", str(place), str(EXAMPLE)], check=True, timeout=120)
    environment = {"PYTHONPATH": str(place)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml")]
    run = subprocess.run(
        [*command, str(EXAMPLE / "test_contract.py")],
        env={**os.environ, **environment},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert run.returncode == 0 and re.search(r"\b1[1-9] passed", run.stdout), run.stdout[-3000:] + run.stderr

    at = ("--home", str(tmp_path / "kb"))
    assert "numpy" in json.loads(headwater("plugins", "--json", environment=environment).output)["vector_indexes"]
    assert headwater("config", "set", "vector_index.use", "numpy", *at, environment=environment).code == 0
    assert headwater("add", str(handbook), *at, environment=environment).code == 0
    found = headwater("search", "parental leave", "--mode", "semantic", "--json", *at, environment=environment)
    told = json.loads(found.output)
    assert told["mode_used"] == "semantic" and Path(told["hits"][0]["uri"]).name == "leave.md"
    (file,) = (tmp_path / "kb").rglob("vectors.npz")
    file.write_bytes(b"damaged")
    assert headwater("check", *at, environment=environment).code == 1
    assert headwater("check", "--repair", *at, environment=environment).code == 0
    # Without the package the name means nothing, and it is said which ones do.
    missing = headwater("search", "leave", *at)
    assert missing.code == 2 and "numpy" in missing.error and "turbovec" in missing.error


def test_every_kind_and_what_it_is_given_is_in_the_table() -> None:
    for kind in ("sources", "parsers", "chunkers", "embedders", "catalogs", "text_indexes", "vector_indexes"):
        assert installed(kind) and f"| `headwater.{kind}` |" in TEXT
    rows = dict(
        re.findall(r"^\| ([a-z ]+) \| (?:the|its|`)(.+) \|$", TEXT.partition("| Kind | Given |")[2], re.MULTILINE)
    )
    for section, kind in (("vector_index", "vector index"), ("text_index", "text index"), ("embed", "embedder")):
        assert all(f"{name}`" in rows[kind] for name in GIVEN[section]), section
    for method in (name for name in vars(VectorIndex) if not name.startswith("_")):
        assert f"def {method}(" in (EXAMPLE / "headwater_numpy.py").read_text(encoding="utf-8")
