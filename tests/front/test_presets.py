"""The presets of the five designs have the designs' values, and every preset searches homes made otherwise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from headwater import cli
from headwater.build import open_home
from headwater.config import load, preset_names, read_preset
from headwater.effective import design_of
from headwater.errors import SettingError, SpaceMismatch
from headwater.settings_file import with_setting

# By design, the numbers of the designs' list that a value is read off. A None stands for: the preset says nothing, and
# the setting must be off.
DESIGNS: dict[str, dict[str, Any]] = {
    "aipilot": {
        "retrieve.top_n": 5,  # 64: limit=5
        "retrieve.threshold": 0.6,  # 64: similarityThreshold=0.6
        "retrieve.threshold_on": "semantic",
        "retrieve.mmr_lambda": 0.7,  # 79
        "retrieve.rewrite": True,  # 56, 109: enableQueryRewriting
        "retrieve.hyde": True,  # 57, 109: enableHyDE
        "retrieve.reflect": True,  # 91, 92, 109
        "retrieve.reflect_rounds": 3,
        "retrieve.reflect_min_score": 7.0,
        "retrieve.pack": "greedy_stop",  # 87
        "retrieve.rerank": None,
        "chunk.use": "semantic",  # 21
        "chunk.grain": "paragraphs",
    },
    "mindpocket": {
        "retrieve.mode": "hybrid",  # 60
        "retrieve.top_n": 6,  # 63
        "retrieve.threshold": 0.3,  # 62, 63
        "retrieve.threshold_on": "semantic",
        "retrieve.fusion": "rrf",  # 76
        "retrieve.rrf_k": 60,
        "retrieve.keyword_weight": 0.5,
        "retrieve.semantic_weight": 0.5,
        "retrieve.rerank": None,
        "chunk.use": "sentence",  # 20
        "text_index.boosts": {"title": 5.0, "tags": 4.0, "description": 3.0, "content": 2.0, "url": 1.0},  # 61
    },
    "qingyu": {
        "retrieve.top_n": 10,  # 65: top_k=10
        "retrieve.candidates": 20,  # 65: each leg fetches top_k*2
        "retrieve.fusion": "rrf",  # 77
        "retrieve.rrf_k": 60,
        "retrieve.semantic_weight": 0.7,
        "retrieve.keyword_weight": 0.3,
        "retrieve.rerank": "builtin",  # 80: enable_rerank: true
        "retrieve.cache_size": 1000,  # 111: lru_cache(1000)
        "chunk.use": "recursive",  # 23
        "chunk.unit": "chars",
        "chunk.size": 500,
        "chunk.overlap": 50,
        "chunk.separators": ["\n\n", "\n", "。", "！", "？", ";", "；"],
    },
    "agentos": {
        "retrieve.rerank": "builtin",  # 72
        "retrieve.window": 1,  # 84
        "retrieve.parent": True,  # 72
        "chunk.use": "hierarchical",  # 30
        "chunk.meta": True,  # 28
    },
    "ragflow": {
        "retrieve.candidates": 1024,  # 66, 107: top_k=1024
        "retrieve.top_n": 8,
        "retrieve.threshold": 0.2,
        "retrieve.threshold_on": "fused",
        "retrieve.fusion": "weighted_score",  # 78
        "retrieve.semantic_weight": 0.3,
        "retrieve.keyword_weight": 0.7,
        "retrieve.rrf_k": 60,
        "retrieve.rerank": "builtin",
        "retrieve.rerank_depth": 100,  # 82
        "text_index.k1": 1.2,  # 67
        "text_index.b": 0.75,
        "chunk.size": 500,  # 32
        "chunk.overlap": 50,
    },
    "ragflow-recall": {  # 74
        "retrieve.candidates": 2048,
        "retrieve.threshold": 0.1,
        "retrieve.semantic_weight": 0.5,
        "retrieve.keyword_weight": 0.5,
        "retrieve.rerank": None,
    },
    "ragflow-precision": {  # 74
        "retrieve.candidates": 512,
        "retrieve.top_n": 5,
        "retrieve.threshold": 0.3,
        "retrieve.rerank": "builtin",
    },
    "ragflow-balanced": {  # 74
        "retrieve.candidates": 1024,
        "retrieve.top_n": 8,
        "retrieve.threshold": 0.2,
        "retrieve.semantic_weight": 0.3,
        "retrieve.keyword_weight": 0.7,
        "retrieve.rerank": None,
    },
}
# What the design has and this engine does otherwise: it must be shown.
SHOWN: dict[str, dict[str, Any]] = {
    "qingyu": {
        "text_index.k1": 1.5,
        "retrieve.rerank": "BAAI/bge-reranker-large",
        "embed.model": "BAAI/bge-large-zh-v1.5",
    },
    "mindpocket": {"embed.model": "text-embedding-v4", "converse.steps": 3},
    "ragflow": {"embed.dim": 1536, "retrieve.deadline_seconds": 600},
    "ragflow-precision": {"retrieve.rerank": "bge-reranker-large"},
}
OURS = {"balanced", "fast", "recall", "precision"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("presets") / "kb"
    with open_home(where) as kb:
        kb.add_text("The dam opened in 1936. It is 221 metres tall.", uri="dam.txt")
        kb.add_text("员工每年享有十五天带薪年假，年假须提前两周申请。", uri="leave.txt")
    return where


def run(*arguments: str) -> Any:
    result = CliRunner().invoke(cli.cli, list(arguments))
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def test_every_preset_is_ours_or_a_design_s() -> None:
    assert set(preset_names()) == OURS | set(DESIGNS)


@pytest.mark.parametrize("name", DESIGNS)
def test_a_design_has_its_values(name: str, tmp_path: Path) -> None:
    said = {key: setting.value for key, setting in read_preset(name).items()}
    for key, value in DESIGNS[name].items():
        assert said.get(key) in ("", None) if value is None else said[key] == value, key
    options = load(tmp_path, preset=name).options()
    for key, value in DESIGNS[name].items():
        section, _, option = key.partition(".")
        if section == "retrieve":
            assert getattr(options, option) in ("", None) if value is None else getattr(options, option) == value


@pytest.mark.parametrize("name", SHOWN)
def test_what_cannot_be_honoured_is_shown_with_what_is_in_effect(name: str, tmp_path: Path) -> None:
    notes = design_of(name)
    for key, value in SHOWN[name].items():
        assert notes[key].value == value and notes[key].why
    shown = run("config", "show", "--preset", name, "--home", str(tmp_path / "none"))
    for key in SHOWN[name]:
        assert f"# design: {key} = " in shown
    told = json.loads(run("config", "show", "--preset", name, "--home", str(tmp_path), "--origin", "--json"))
    assert {key for key, entry in told.items() if "design" in entry} == set(notes)


def test_the_embedded_index_says_its_own_value_beside_the_design_s(tmp_path: Path) -> None:
    shown = run("config", "show", "--preset", "qingyu", "--home", str(tmp_path))
    assert "text_index.k1 = 1.2" in shown
    assert "# design: text_index.k1 = 1.5, in effect: 1.2" in shown


@pytest.mark.parametrize("name", sorted(OURS | set(DESIGNS)))
def test_every_preset_searches_a_home_that_was_made_otherwise(home: Path, name: str) -> None:
    given = json.loads(run("search", "dam metres", "--preset", name, "--home", str(home), "--json"))
    if name != "aipilot":  # whose threshold is made for other embedders than the one that ships
        assert given["hits"][0]["uri"] == "dam.txt"
    answer = json.loads(run("ask", "年假要提前多久申请？", "--preset", name, "--home", str(home), "--json"))
    if name not in ("aipilot", "ragflow-precision"):
        assert "两周" in answer["answer"]


def test_a_preset_given_as_a_flag_stands_alone(tmp_path: Path) -> None:
    assert load(tmp_path).options().rerank == "builtin"
    assert load(tmp_path, preset="fast").options().rerank == ""
    (tmp_path / "headwater.toml").write_text("[retrieve]\nwindow = 2\n", encoding="utf-8")
    assert load(tmp_path, preset="fast").options().window == 2


@pytest.mark.parametrize("name", ["qingyu", "mindpocket", "agentos", "aipilot"])
def test_a_home_made_with_a_design_is_cut_that_way_and_stays_so(tmp_path: Path, name: str) -> None:
    text = "年假须提前两周申请。部门主管在三天内批准。\n\n" * 60
    with open_home(tmp_path / "kb", preset=name) as kb:
        kb.add_text(text, uri="leave.txt")
        assert kb.status()["chunker"].startswith(str(DESIGNS[name]["chunk.use"]))
        cut = len(kb.chunks("leave.txt"))
        assert cut > 1
    with open_home(tmp_path / "kb") as kb:  # without the preset it is still the same home
        kb.add_text(text + "再见。", uri="other.txt")
        assert kb.search("年假")


def test_another_way_of_cutting_is_refused_by_add_and_not_by_search(home: Path) -> None:
    with open_home(home, preset="qingyu") as kb:
        assert kb.search("dam")
        with pytest.raises(SpaceMismatch, match="reindex"):
            kb.add_text("More.", uri="more.txt")


# ------------------------------------------------------------------------------------------- config set


def test_a_setting_is_written_and_read_again(tmp_path: Path) -> None:
    home = tmp_path / "kb"
    run("config", "set", "retrieve.top_n", "5", "--home", str(home))
    run("config", "set", "preset", "recall", "--home", str(home))
    run("config", "set", "tokens.dictionary", '["青砚河"]', "--home", str(home))
    run("config", "set", "chunk.size", "300", "--home", str(home))
    run("config", "set", "llm.local.model", "qwen3", "--home", str(home))
    config = load(home)
    assert (config.options().top_n, config.settings["preset"].value) == (5, "recall")
    assert config.tokens().dictionary == ("青砚河",)
    assert config.component("chunk")[2] == {"size": 300}
    assert config.table("llm", "local") == {"model": "qwen3"}
    run("config", "set", "retrieve.top_n", "7", "--home", str(home))
    assert load(home).options().top_n == 7


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("retrieve.topn", "5", "did you mean 'top_n'"),
        ("retrieve.top_n", "many", "must be of type int"),
        ("retrieve.mode", "psychic", "must be one of"),
        ("nowhere.top_n", "5", "no section is named"),
        ("chunk.colour", "5", "unknown setting chunk.colour"),
        ("chunk.size", "large", "must be like 512"),
        ("preset", "nonesuch", "no preset is named"),
        ("top_n", "5", "no section"),
    ],
)
def test_a_wrong_setting_is_refused_and_nothing_is_written(tmp_path: Path, key: str, value: str, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        run("config", "set", key, value, "--home", str(tmp_path))
    assert not (tmp_path / "headwater.toml").exists()


def test_comments_and_other_sections_stay() -> None:
    text = '# mine\npreset = "fast"  # quick\n\n[retrieve]\n# why not\ntop_n = 5\n\n[llm.local]\nmodel = "a"\n'
    made = with_setting(text, "retrieve.window", 1)
    assert made == text.replace("top_n = 5\n", "top_n = 5\nwindow = 1\n")
    assert with_setting(made, "retrieve.top_n", 9) == made.replace("top_n = 5", "top_n = 9")
    assert with_setting(text, "preset", "recall").startswith('# mine\npreset = "recall"\n')
    with pytest.raises(SettingError, match="yourself"):
        with_setting("[tokens]\ndictionary = [\n  'a',\n]\n", "tokens.dictionary", ["b"])


# ---------------------------------------------------------------------------------------- config import

YAML = """
rag:
  vectorization: {model: BAAI/bge-large-zh-v1.5, batch_size: 32, device: cuda}
  chunking: {chunk_size: 500, chunk_overlap: 50}
  search: {top_k: 10, semantic_weight: 0.7, keyword_weight: 0.3, enable_rerank: true, colour: red}
  milvus: {host: db.example, port: 19530}
"""


def test_the_yaml_of_the_writing_platform_becomes_settings(tmp_path: Path) -> None:
    file = tmp_path / "rag.yaml"
    file.write_text(YAML, encoding="utf-8")
    told = json.loads(run("config", "import", str(file), "--home", str(tmp_path / "kb"), "--json"))
    assert set(told["left"]) >= {"search.colour"}
    config = load(tmp_path / "kb")
    options = config.options()
    assert (options.top_n, options.candidates, options.fusion, options.rerank) == (10, 20, "rrf", "builtin")
    assert (options.semantic_weight, options.keyword_weight) == (0.7, 0.3)
    assert config.component("chunk")[1:] == ("recursive", {"size": 500, "overlap": 50, "unit": "chars"})
    model = {"model": "BAAI/bge-large-zh-v1.5", "batch_size": 32, "device": "cuda"}
    assert config.component("embed")[1:] == ("sentence-transformers", model)


@pytest.mark.parametrize("text", ["rag: [1", "other: {}", "", "rag: 5"])
def test_a_file_that_is_none_of_these_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "rag.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(SettingError):
        run("config", "import", str(file), "--home", str(tmp_path / "kb"))
