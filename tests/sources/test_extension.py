"""The browser extension: a manifest that browsers take, both languages, no foreign code, and the request it sends."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import headwater

FOLDER = Path(__file__).parents[2] / "extension"
SCRIPTS = sorted(FOLDER.glob("*.js"))


def read(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


MANIFEST = json.loads(read("manifest.json"))


def test_the_manifest_names_only_what_is_there() -> None:
    assert MANIFEST["manifest_version"] == 3 and re.fullmatch(r"\d+(\.\d+){1,3}", MANIFEST["version"])
    named = [MANIFEST["background"]["service_worker"], MANIFEST["options_ui"]["page"], *MANIFEST["icons"].values()]
    named += [*MANIFEST["background"]["scripts"], MANIFEST["action"]["default_icon"]]
    assert all((FOLDER / name).is_file() for name in named)
    assert (FOLDER / "_locales" / MANIFEST["default_locale"] / "messages.json").is_file()
    # No page is read without a click, and only this computer is reached without a further question.
    assert "activeTab" in MANIFEST["permissions"] and "tabs" not in MANIFEST["permissions"]
    assert MANIFEST["host_permissions"] == ["http://127.0.0.1/*", "http://localhost/*"]
    assert "content_scripts" not in MANIFEST


def test_both_languages_say_everything() -> None:
    texts = {
        path.parent.name: json.loads(path.read_text(encoding="utf-8")) for path in FOLDER.glob("_locales/*/*.json")
    }
    assert set(texts) == {"en", "zh_CN"}
    assert set(texts["en"]) == set(texts["zh_CN"])
    used = set(re.findall(r"__MSG_(\w+)__", read("manifest.json")))
    used |= set(re.findall(r'data-say="(\w+)"', read("options.html")))
    for script in SCRIPTS:
        used |= set(re.findall(r'say\("(\w+)"', script.read_text(encoding="utf-8")))
    used |= {"refused"}  # by `failureOf`
    assert used == set(texts["en"])
    assert not any(re.search(r"[a-z]{12,}", entry["message"]) for entry in texts["zh_CN"].values())


def test_there_is_no_foreign_code() -> None:
    for path in (*SCRIPTS, FOLDER / "options.html"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"\beval\(|new Function|innerHTML|https?://(?!127\.0\.0\.1)", text), path.name
        for source in re.findall(r'(?:from|src=|href=)\s*"([^"]+)"', text):
            assert (FOLDER / source).is_file(), source


def node(*arguments: str) -> str:
    found = shutil.which("node")
    assert found is not None, "node is needed: install it, or leave out what is marked `system`"
    done = subprocess.run(
        [found, *arguments], capture_output=True, text=True, encoding="utf-8", check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.system
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_are_valid(script: Path, tmp_path: Path) -> None:
    module = tmp_path / script.with_suffix(".mjs").name
    shutil.copy(script, module)
    node("--check", str(module))


@pytest.mark.system
def test_what_is_sent_is_what_the_knowledge_base_takes(tmp_path: Path) -> None:
    shutil.copy(FOLDER / "request.js", tmp_path / "request.mjs")
    (tmp_path / "run.mjs").write_text(
        'import { requestFor, serverOf, failureOf } from "./request.mjs";\n'
        'const page = { url: "https://a.example/x#y", title: "X", html: "<h1>X</h1><p>26 周", selection: "26" };\n'
        'const plain = requestFor(page, {}), full = requestFor(page, { server: "https://h.example/hw/", key: "k", '
        'collection: "c", tags: "a, b，c" });\n'
        'const servers = ["http://127.0.0.1:8571/", "ftp://x", "nonsense", "http://u:p@h/"].map(serverOf);\n'
        "console.log(JSON.stringify({ plain, full, servers, failures: [200, 202, 401, 500].map(failureOf) }));\n",
        encoding="utf-8",
    )
    told = json.loads(node(str(tmp_path / "run.mjs")))
    assert told["servers"] == ["http://127.0.0.1:8571", "", "", ""]
    assert told["failures"] == ["", "", "refused", "HTTP 500"]
    assert told["plain"]["url"] == "http://127.0.0.1:8571/api/v1/ingest/html"
    assert "Authorization" not in told["plain"]["options"]["headers"]
    assert told["full"]["url"] == "https://h.example/hw/api/v1/ingest/html"
    assert told["full"]["options"]["headers"]["Authorization"] == "Bearer k"
    body = json.loads(told["full"]["options"]["body"])
    assert body["tags"] == ["a", "b", "c"] and body["collection"] == "c" and body["meta"] == {"selection": "26"}
    with headwater.open(tmp_path / "kb") as kb:
        kb.add_html(body["html"], url=body["url"], title=body["title"], client_source=body["client_source"])
        record = kb.record("https://a.example/x")
        assert record.title == "X" and record.meta["client_source"] == "extension"


@pytest.mark.system
def test_a_click_sends_the_page(tmp_path: Path) -> None:
    """The background script, in a browser made of a few lines."""
    for name in ("request.js", "background.js"):
        (tmp_path / name).write_text(read(name), encoding="utf-8")
    (tmp_path / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    (tmp_path / "run.mjs").write_text(
        """
const said = [], sent = [], heard = {};
const listen = (name) => ({ addListener: (act) => { heard[name] = act; } });
const page = { url: "https://a.example/x", title: "X", html: "<p>x", selection: "" };
globalThis.chrome = {
  i18n: { getMessage: (name, values) => [name, ...(values ?? [])].join(":") },
  action: { onClicked: listen("click"), setBadgeText: async ({ text }) => said.push(text),
            setBadgeBackgroundColor: async () => {}, setTitle: async ({ title }) => said.push(title) },
  runtime: { onInstalled: listen("installed") },
  contextMenus: { create: (menu) => said.push(menu.id), onClicked: listen("menu") },
  storage: { local: { get: async (defaults) => ({ ...defaults, key: "k" }) } },
  scripting: { executeScript: async () => [{ result: page }] },
};
let status = 200;
globalThis.fetch = async (url, options) => {
  if (!status) throw new TypeError("no server");
  sent.push([url, options.headers.Authorization, JSON.parse(options.body).client_source]);
  return { status };
};
await import("./background.js");
heard.installed();
await heard.click({ id: 1 });
status = 401;
await heard.menu({}, { id: 1 });
status = 0;
await heard.click({ id: 1 });
page.url = "about:blank";
await heard.click({ id: 1 });
console.log(JSON.stringify({ said, sent }));
""",
        encoding="utf-8",
    )
    told = json.loads(node(str(tmp_path / "run.mjs")))
    assert told["sent"] == [["http://127.0.0.1:8571/api/v1/ingest/html", "Bearer k", "extension"]] * 2
    waits = ["…", "send"]
    assert told["said"] == [
        *("send", *waits, "✓", "sent", *waits, "!", "failed:refused"),
        *(*waits, "!", "failed:unreachable", *waits, "!", "failed:no_page"),
    ]
