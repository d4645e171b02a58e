"""What programs outside rely on: options and help of every command, the keys of `--json`, where settings come from."""

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from tests.starter import headwater

import headwater as library
from headwater import config as settings
from headwater.cli import cli
from headwater.errors import HeadwaterError, SettingError
from headwater.models.chat import OpenAIChat
from headwater.models.openai import OpenAIEmbedder

# Commands that print no result of their own: they talk, serve or go on until they are stopped.
WITHOUT_JSON = {"chat", "serve", "worker", "mcp", "demo"}


def commands(group: click.Group, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], click.Command]]:
    found: list[tuple[tuple[str, ...], click.Command]] = []
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            found += [((*path, name), command), *commands(command, (*path, name))]
        else:
            found.append(((*path, name), command))
    return found


def run(*arguments: str, given: str | bytes = "") -> Any:
    """In this process, for speed; errors as they are raised."""
    outcome = CliRunner().invoke(cli, list(arguments), input=given, catch_exceptions=True)
    if isinstance(outcome.exception, HeadwaterError):
        raise outcome.exception
    assert outcome.exception is None or isinstance(outcome.exception, SystemExit), outcome.exception
    return outcome


def printed(*arguments: str, code: int = 0, given: str | bytes = "") -> Any:
    outcome = run(*arguments, "--json", given=given)
    assert outcome.exit_code == code, outcome.output
    return json.loads(outcome.stdout)


@pytest.fixture
def home(tmp_path: Path, handbook: Path) -> str:
    home = tmp_path / "我的 kb"
    with library.open(home) as kb:
        assert kb.add(handbook).added == 4
    return str(home)


# --------------------------------------------------------------------------------------------- options


def test_every_command_takes_home_and_json_and_shows_an_example() -> None:
    found = commands(cli)
    assert len(found) > 30
    for path, command in found:
        help_text = command.help or ""
        assert "Example:" in help_text and f"headwater {path[0]}" in help_text, path
        if isinstance(command, click.Group):
            continue
        options = {option for parameter in command.params for option in parameter.opts}
        assert "--home" in options, path
        assert ("--json" in options) == (path[0] not in WITHOUT_JSON), path


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_installed_once(shell: str, tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path), "XDG_DATA_HOME": "", "XDG_CONFIG_HOME": "", "ZDOTDIR": ""}
    (tmp_path / ".bashrc").write_text("alias ll='ls -l'", encoding="utf-8")
    for _ in range(2):
        outcome = headwater("--install-completion", shell, environment=environment)
        assert (outcome.code, outcome.error) == (0, ""), outcome
    script = next(path for path in tmp_path.rglob("headwater.*") if path.suffix == f".{shell}")
    assert "_HEADWATER_COMPLETE" in script.read_text(encoding="utf-8")
    start = tmp_path / {"bash": ".bashrc", "zsh": ".zshrc", "fish": ".nothing"}[shell]
    if shell != "fish":
        assert start.read_text(encoding="utf-8").count(str(script)) == 1
    assert (tmp_path / ".bashrc").read_text(encoding="utf-8").startswith("alias ll='ls -l'")


def test_completion_names_commands_and_refuses_an_unknown_shell(tmp_path: Path) -> None:
    asked = {"_HEADWATER_COMPLETE": "bash_complete", "COMP_WORDS": "headwater se", "COMP_CWORD": "1"}
    assert headwater(environment=asked).output.split() == ["plain,search", "plain,serve"]
    refused = headwater("--install-completion", environment={"SHELL": "/bin/tcsh", "HOME": str(tmp_path)})
    assert refused.code == 2 and "tcsh" in refused.error and "zsh" in refused.error
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------------------------------------- shapes


def test_the_keys_of_every_json(home: str, handbook: Path) -> None:
    added = printed("add", str(handbook), "--home", home)
    assert added.keys() >= {"added", "updated", "unchanged", "removed", "failed", "took_ms"}
    assert added["unchanged"] == 4 and added["failed"] == []

    found = printed("search", "parental leave", "--home", home, "--top-n", "2")
    top = {"query", "mode_used", "fallback_reason", "degraded", "total", "took_ms", "hits"}
    assert found.keys() >= top and len(found["hits"]) == 2
    hit_keys = "rank chunk_id document_id uri title collection text section pages span score scores reasons highlights"
    for number, hit in enumerate(found["hits"], start=1):
        assert hit.keys() >= {*hit_keys.split(), "meta"} and hit["rank"] == number
        assert all(isinstance(score, int | float) for score in hit["scores"].values()) and len(hit["span"]) == 2

    answer = printed("ask", "How many weeks of leave are parents entitled to?", "--home", home)
    assert answer.keys() >= {"question", "answer", "citations", "degraded", "verdict", "hits", "trace"}
    assert answer["citations"]
    citation_keys = {"marker", "document_id", "uri", "title", "pages", "span", "quote", "support"}
    with library.open(home) as kb:
        for citation in answer["citations"]:
            assert citation.keys() >= citation_keys
            start, end = citation["span"]
            assert kb.document(citation["document_id"]).text[start:end] == citation["quote"]

    listed = printed("list", "--home", home)
    assert all(row.keys() >= {"id", "uri", "title", "collection", "state", "chunks", "problems"} for row in listed)
    assert len(listed) == 4
    assert printed("check", "--home", home)["problems"] == []
    assert printed("key", "create", "--home", home).keys() == {"id", "key"}
    assert printed("plugins", "--home", home).keys() >= {"embedders", "parsers"}


def test_status_counts_jobs_by_state(home: str, tmp_path: Path) -> None:
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.4 nothing more")
    failed = printed("add", str(tmp_path / "broken.pdf"), "--home", home, code=1)
    assert failed["failed"][0]["uri"].endswith("broken.pdf") and failed["failed"][0]["reason"]
    told = printed("status", "--home", home)
    assert told.keys() >= {"documents", "chunks", "bytes", "jobs", "generation"}
    assert told["jobs"] == {"pending": 0, "processing": 0, "indexed": 0, "completed": 4, "empty": 0, "failed": 1}
    # What a server of the home was given and has not done yet counts as well.
    from headwater.storage.ledger import Ledger

    ledger = Ledger(Path(home))
    ledger.jobs.add(owner="local", collection="default", document="d", uri="u", kind="url", work={})
    ledger.close()
    assert printed("status", "--home", home)["jobs"]["pending"] == 1
    assert "jobs" in run("status", "--home", home).output


# ------------------------------------------------------------------------------------------ what is added


def test_standard_input_may_be_any_kind_of_file(home: str) -> None:
    deck = (Path(__file__).parents[1] / "data" / "manual.docx").read_bytes()
    assert printed("add", "-", "--home", home, given=deck)["added"] == 1
    assert printed("add", "-", "--home", home, given=deck)["unchanged"] == 1
    row = next(row for row in printed("list", "--home", home) if row["uri"].startswith("stdin:"))
    assert row["state"] == "completed" and row["chunks"] > 0 and "word/document.xml" not in row["title"]


def test_standard_input_beside_files_and_a_dry_run(home: str, tmp_path: Path) -> None:
    note = tmp_path / "a note.txt"
    note.write_text("The weir was raised by 30 centimetres.", encoding="utf-8")
    arguments = ("add", str(note), "-", "--home", home)
    text = "The sluice closes at dusk."
    assert printed(*arguments, "--dry-run", given=text)["added"] == 2
    assert len(printed("list", "--home", home)) == 4
    assert printed(*arguments, given=text)["added"] == 2
    assert printed(*arguments, "--dry-run", given=text)["unchanged"] == 2
    assert printed("search", "sluice", "--mode", "keyword", "--home", home)["total"] == 1


# --------------------------------------------------------------------------------------------- settings


def test_each_place_of_a_setting_wins_over_the_one_before(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def in_force() -> tuple[Any, str]:
        told = printed("config", "show", "--origin", "--home", home)["retrieve.top_n"]
        return told["value"], told["origin"]

    assert in_force() == (8, "preset balanced") or in_force()[1] == "default"
    printed("config", "set", "retrieve.top_n", "4", "--home", home)
    assert in_force()[0] == 4 and "headwater.toml" in in_force()[1]
    (Path(home) / ".env").write_text("HEADWATER_RETRIEVE__TOP_N=3\n", encoding="utf-8")
    assert in_force()[0] == 3 and ".env" in in_force()[1]
    monkeypatch.setenv("HEADWATER_RETRIEVE__TOP_N", "2")
    assert in_force() == (2, "environment: HEADWATER_RETRIEVE__TOP_N")
    assert len(printed("search", "leave", "--home", home)["hits"]) == 2
    assert len(printed("search", "leave", "--home", home, "--top-n", "1")["hits"]) == 1


def test_keys_in_the_env_file_of_a_home_are_honoured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "DASHSCOPE_API_KEY", "MY_KEY"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / ".env").write_text(
        "OPENAI_API_KEY=sk-file\nOPENAI_BASE_URL=http://127.0.0.1:9/v1\nMY_KEY=sk-mine\n", encoding="utf-8"
    )
    told = settings.load(tmp_path, flags={"generate.use": "openai", "embed.use": "openai", "embed.model": "m"})
    with library.open(tmp_path / "kb", config=told) as kb:
        assert isinstance(kb.writers.default, OpenAIChat) and isinstance(kb.embedder, OpenAIEmbedder)
        for made in (kb.writers.default, kb.embedder):
            assert made._endpoint.base_url == "http://127.0.0.1:9/v1"
            assert made._endpoint._api_key == "sk-file"
    monkeypatch.setenv("OPENAI_API_KEY", "sk-environment")
    with library.open(tmp_path / "kb", config=told) as kb:
        assert isinstance(kb.embedder, OpenAIEmbedder) and kb.embedder._endpoint._api_key == "sk-environment"
    named = settings.load(tmp_path, flags={"generate.use": "openai", "generate.api_key": "env:MY_KEY"})
    assert named.component("generate")[2]["api_key"] == "sk-mine"
    assert "sk-mine" not in repr(named)
    with pytest.raises(SettingError, match="NO_SUCH"):
        settings.load(tmp_path, flags={"generate.api_key": "env:NO_SUCH"}).component("generate")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("retrieve.top_n", "0"),
        ("retrieve.candidates", "0"),
        ("retrieve.mmr_lambda", "1.5"),
        ("retrieve.deadline_seconds", "0"),
        ("retrieve.deadline_seconds", "nan"),
        ("retrieve.keyword_weight", "-1"),
        ("server.port", "99999"),
        ("chunk.overlap", "600"),
        ("chunk.size", "0"),
    ],
)
def test_values_that_cannot_work_are_refused_when_they_are_written(name: str, value: str, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=name.replace(".", r"\.")):
        run("config", "set", "--home", str(tmp_path), "--", name, value)
    assert not (tmp_path / "headwater.toml").exists()


@pytest.mark.parametrize("name", ["年度报告", "v1.2"])
@pytest.mark.parametrize("quote", ["", '"', "'"])
def test_the_name_of_a_collection_may_be_quoted_as_in_the_file(name: str, quote: str, tmp_path: Path) -> None:
    run("config", "set", "--home", str(tmp_path), f"collection.{quote}{name}{quote}.top_n", "3")
    assert settings.load(tmp_path).of_collection(name) == {"top_n": 3}


def test_what_cannot_be_written_or_opened_is_told_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    outcome = headwater("config", "set", "retrieve.top_n", "3", environment={"HEADWATER_HOME": str(tmp_path / "file")})
    assert outcome.code == 2 and "cannot be read" in outcome.error and "unexpected" not in outcome.error
    (tmp_path / "kb" / "headwater.new").mkdir(parents=True)  # where the file would be written
    outcome = headwater("config", "set", "retrieve.top_n", "3", "--home", str(tmp_path / "kb"))
    assert outcome.code == 1 and "cannot be written" in outcome.error and "unexpected" not in outcome.error
    torn = tmp_path / "torn"
    torn.mkdir()
    (torn / "catalog.sqlite").write_bytes(b"this is no database, and long enough to be told from one" * 20)
    served = headwater("serve", "--port", "0", "--home", str(torn), timeout_seconds=60)
    assert served.code == 1 and "catalog" in served.error
    assert "Traceback" not in served.error and "serves" not in served.error
    (torn / "catalog.sqlite").rename(torn / "ledger.sqlite")
    served = headwater("serve", "--port", "0", "--home", str(torn), timeout_seconds=60)
    assert served.code == 1 and "ledger.sqlite cannot be read" in served.error
    assert "Traceback" not in served.error and "serves" not in served.error


def test_nobody_there_to_answer_is_wrong_usage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from headwater import llm
    from headwater.errors import UsageError

    monkeypatch.setattr(llm, "ollama_url", lambda: "")
    with pytest.raises(UsageError, match="--base-url"):
        run("llm", "setup", "--home", str(tmp_path))
    made = printed(
        "llm", "setup", "--base-url", "http://127.0.0.1:9/v1", "--model", "m", "--no-test", "--home", str(tmp_path)
    )
    assert made["section"] == "generate" and made["settings"]["model"] == "m" and made["test"] is None
