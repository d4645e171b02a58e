"""Fetching a model: from a hub on this machine, checked, going on where it stopped, and never unasked."""

import hashlib
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from click.testing import CliRunner

from headwater.cli import cli
from headwater.errors import BackendError, NotFound, SettingError
from headwater.models import fetch
from headwater.models.fetch import hub_id_of, pull, pulled
from headwater.models.known import MODELS
from headwater.models.onnx import OnnxEmbedder

TINY = Path(__file__).parent / "tiny"
REPOSITORY = "someone/tiny"


class Hub:
    """The part of the hub's interface that a pull needs. Weights are large files, the rest is kept by git."""

    def __init__(self) -> None:
        weights = (TINY / "model.onnx").read_bytes()
        self.files = {
            "onnx/model.onnx": weights,
            "onnx/model_quantized.onnx": weights[:-1] + b"\0",
            "tokenizer.json": (TINY / "tokenizer.json").read_bytes(),
            "config.json": (TINY / "config.json").read_bytes(),
            "pytorch_model.bin": b"not wanted",
            "../escape.onnx": b"not allowed",
        }
        self.announced = dict(self.files)
        self.break_after: int | None = None
        self.ranges = True
        self.asked: list[tuple[str, str]] = []
        hub = self

        class Responder(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing."""

            def do_GET(self) -> None:
                path, _, _ = self.path.partition("?")
                hub.asked.append((path, self.headers.get("Range", "")))
                if path == f"/api/models/{REPOSITORY}/tree/main":
                    self.reply(200, json.dumps([hub.entry(name) for name in hub.announced]).encode())
                elif path.startswith(f"/{REPOSITORY}/resolve/main/"):
                    self.send_file(hub.files[path.removeprefix(f"/{REPOSITORY}/resolve/main/")])
                else:
                    self.reply(404, b"{}")

            def send_file(self, data: bytes) -> None:
                wanted = self.headers.get("Range", "")
                start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and hub.ranges else 0
                part = data[start:]
                cut, hub.break_after = hub.break_after, None
                self.reply(206 if start else 200, part, sent=part if cut is None else part[:cut])

            def reply(self, status: int, data: bytes, *, sent: bytes | None = None) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data if sent is None else sent)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Responder)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def entry(self, name: str) -> dict[str, Any]:
        data = self.announced[name]
        oid = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
        large = {"lfs": {"oid": hashlib.sha256(data).hexdigest(), "size": len(data)}} if name.endswith("onnx") else {}
        return {"type": "file", "path": name, "size": len(data), "oid": oid, **large}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.delenv("HF_ENDPOINT", raising=False)
    made = Hub()
    thread = Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


def test_a_pulled_model_works_and_is_pulled_once(hub: Hub, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    place = pull(REPOSITORY, tmp_path, base_url=hub.url, on_progress=lambda *told: seen.append(told))
    assert place == tmp_path / "someone" / "tiny"
    here = {path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file()}
    assert here == {"onnx/model.onnx", "tokenizer.json", "config.json", "pulled.json"}
    assert ("onnx/model.onnx", len(hub.files["onnx/model.onnx"]), len(hub.files["onnx/model.onnx"])) in seen
    embedder = OnnxEmbedder(model=REPOSITORY, models_folder=tmp_path)
    assert embedder.embed(["pump"], "query").any()
    assert [(name, size > 10_000) for name, _, size in pulled(tmp_path)] == [(REPOSITORY, True)]
    asked = len(hub.asked)
    pull(REPOSITORY, tmp_path, base_url=hub.url)
    assert len(hub.asked) == asked + 1, "only the list of files is asked for again"


def test_int8_is_chosen_when_asked(hub: Hub, tmp_path: Path) -> None:
    place = pull(REPOSITORY, tmp_path, precision="int8", base_url=hub.url)
    assert (place / "onnx" / "model_quantized.onnx").exists() and not (place / "onnx" / "model.onnx").exists()
    del hub.announced["onnx/model.onnx"]
    with pytest.raises(NotFound, match=r"no fp32 ONNX weights .*model_quantized.*--precision int8"):
        pull(REPOSITORY, tmp_path, base_url=hub.url)


@pytest.mark.parametrize("ranges", [True, False])
def test_a_download_that_broke_off_goes_on(hub: Hub, tmp_path: Path, ranges: bool) -> None:
    hub.ranges = ranges
    pull(REPOSITORY, tmp_path, precision="int8", base_url=hub.url)  # the small files are here now
    hub.break_after = 3000
    with pytest.raises(BackendError, match="broke off"):
        pull(REPOSITORY, tmp_path, base_url=hub.url)
    target = tmp_path / REPOSITORY / "onnx" / "model.onnx"
    assert not target.exists() and target.with_name("model.onnx.part").stat().st_size == 3000
    pull(REPOSITORY, tmp_path, base_url=hub.url)
    assert hub.asked[-1] == (f"/{REPOSITORY}/resolve/main/onnx/model.onnx", "bytes=3000-")
    assert target.read_bytes() == hub.files["onnx/model.onnx"]
    assert not list(tmp_path.rglob("*.part"))


@pytest.mark.parametrize("name", ["onnx/model.onnx", "config.json"])
def test_a_wrong_checksum_is_refused(hub: Hub, tmp_path: Path, name: str) -> None:
    data = hub.files[name]
    hub.files[name] = data[:-1] + bytes([data[-1] ^ 1])
    with pytest.raises(BackendError, match="its checksum differs"):
        pull(REPOSITORY, tmp_path, base_url=hub.url)
    assert not (tmp_path / REPOSITORY / name).exists() and not list(tmp_path.rglob("*.part"))
    hub.files[name] = data
    pull(REPOSITORY, tmp_path, base_url=hub.url)
    assert (tmp_path / REPOSITORY / name).read_bytes() == data


def test_a_damaged_file_on_disk_is_fetched_again(hub: Hub, tmp_path: Path) -> None:
    place = pull(REPOSITORY, tmp_path, base_url=hub.url)
    damaged = bytearray(hub.files["onnx/model.onnx"])
    damaged[100] ^= 1
    (place / "onnx" / "model.onnx").write_bytes(damaged)
    pull(REPOSITORY, tmp_path, base_url=hub.url)
    assert (place / "onnx" / "model.onnx").read_bytes() == hub.files["onnx/model.onnx"]


def test_no_network_is_said_clearly(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotFound, match="has no model 'someone/other'"):
        pull("someone/other", tmp_path, base_url=hub.url)
    with pytest.raises(BackendError, match=r"cannot be reached .*--from"):
        pull(REPOSITORY, tmp_path, base_url="http://127.0.0.1:9")
    monkeypatch.setenv("HEADWATER_OFFLINE", "1")
    with pytest.raises(BackendError, match="HEADWATER_OFFLINE is set"):
        pull(REPOSITORY, tmp_path)
    assert not list(tmp_path.rglob("*"))


def test_names_lead_to_repositories() -> None:
    assert hub_id_of("bge-small-zh-v1.5") == "Xenova/bge-small-zh-v1.5"
    assert hub_id_of("someone/tiny") == "someone/tiny"
    for wrong in ("nobody-knows", "../up", "a/b/c", "m3e-small", "/etc/passwd", "a/..", "text-embedding-3-small"):
        with pytest.raises(SettingError):
            hub_id_of(wrong)
    assert all(model.hub_id.count("/") == 1 for model in MODELS if model.hub_id)


def test_the_commands(hub: Hub, tmp_path: Path) -> None:
    home = ["--home", str(tmp_path)]
    empty = CliRunner().invoke(cli, ["models", "list", *home])
    assert "on disk: none" in empty.output and "text-embedding-v4" in empty.output
    done = CliRunner().invoke(cli, ["models", "pull", REPOSITORY, "--from", hub.url, *home], catch_exceptions=False)
    assert done.exit_code == 0 and f'model = "{REPOSITORY}"' in done.output
    listed = json.loads(CliRunner().invoke(cli, ["models", "list", "--json", *home]).output)
    assert [model["name"] for model in listed["pulled"]] == [REPOSITORY]
    assert {"name", "dim", "from", "use", "max_tokens", "query_prefix", "passage_prefix"} == set(listed["known"][0])
    again = ["models", "pull", REPOSITORY, "--from", hub.url, "--json", *home]
    assert json.loads(CliRunner().invoke(cli, again).output)["name"] == REPOSITORY


def test_only_a_pull_fetches() -> None:
    """No other module names the hub's address, but the one that is allowed to by a setting."""
    package = Path(fetch.__file__).parents[1]
    named = {path.name for path in package.rglob("*.py") if "huggingface.co" in path.read_text(encoding="utf-8")}
    assert named == {"fetch.py", "sentence_transformers.py"}
