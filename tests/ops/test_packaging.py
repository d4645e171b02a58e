"""What `Dockerfile`, `compose.yaml` and `ops/` name exists: commands, flags, paths, metrics; and it starts so."""

import fnmatch
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest
import yaml

from headwater.cli import cli
from headwater.commands.serve import GRACE_SECONDS
from headwater.server.app import SHUTDOWN_SECONDS
from headwater.storage.ledger import Ledger

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "bench"))

from serving import Server, form  # noqa: E402

SECRETIVE = re.compile(r"key|secret|token|password", re.IGNORECASE)


class Instruction(NamedTuple):
    """One of a Dockerfile's."""

    stage: int
    name: str
    value: str


def instructions() -> list[Instruction]:
    text = (ROOT / "Dockerfile").read_text("utf-8")
    lines = re.sub(r"\\\n\s*", " ", "\n".join(line for line in text.splitlines() if not line.startswith("#")))
    found: list[Instruction] = []
    stage = -1
    for line in filter(str.strip, lines.splitlines()):
        name, _, value = line.strip().partition(" ")
        stage += name == "FROM"
        found.append(Instruction(stage, name, value.strip()))
    return found


def last(name: str) -> str:
    stages = max(one.stage for one in instructions())
    (value,) = [one.value for one in instructions() if one.name == name and one.stage == stages]
    return value


def command_of(arguments: list[str]) -> tuple[click.Command, dict[str, Any]]:
    """The command that arguments call, and what they say; a flag that does not exist is an error."""
    found: click.Command = cli
    rest = list(arguments)
    while isinstance(found, click.Group):
        found = found.commands[rest.pop(0)]
    context = found.make_context("headwater", rest)
    return found, context.params


# ------------------------------------------------------------------------------------------- the image


def test_the_image_starts_a_command_that_exists_where_its_health_is_asked() -> None:
    assert json.loads(last("ENTRYPOINT")) == ["headwater"]
    command, said = command_of(json.loads(last("CMD")))
    assert (command.name, said["host"], said["insecure"]) == ("serve", "0.0.0.0", False)
    environment = dict(pair.split("=", 1) for pair in shlex.split(last("ENV")))
    assert said["port"] is None and environment["PORT"] == last("EXPOSE")
    assert environment["HEADWATER_HOME"] == last("VOLUME") == last("WORKDIR") == "/data"
    assert "/healthz" in last("HEALTHCHECK")  # which `health` below asks
    assert environment["PATH"].split(":")[0] == "/opt/headwater/bin"


def test_the_image_runs_as_nobody_special_and_holds_no_secret() -> None:
    names = [one.name for one in instructions()]
    assert names.index("USER") < names.index("ENTRYPOINT") < names.index("CMD")
    made = [one.value for one in instructions() if one.name == "RUN" and "useradd" in one.value]
    assert last("USER") == "10001:10001" and "--uid 10001" in made[0]
    assert not [one for one in instructions() if one.name in ("ENV", "ARG") and SECRETIVE.search(one.value)]
    bases = [one.value.split()[0] for one in instructions() if one.name == "FROM"]
    assert bases == ["python:3.12-slim"] * 2  # the second has no builder's cache


def test_the_builder_is_sent_what_it_copies_and_nothing_else() -> None:
    copied = [
        source
        for one in instructions()
        if one.name == "COPY" and "--from" not in one.value
        for source in one.value.split()[:-1]
    ]
    assert all((ROOT / source).exists() for source in copied)
    rules = [
        line for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line and not line.startswith("#")
    ]
    assert rules[0] == "*" and sorted(copied) == sorted(rule[1:] for rule in rules if rule.startswith("!"))
    kept_out = [rule for rule in rules[1:] if not rule.startswith("!")]
    for hidden in ("src/.env", "src/headwater/.headwater", "src/headwater/__pycache__"):
        assert any(fnmatch.fnmatch(hidden, rule) for rule in kept_out), hidden
    # What the build of the wheel reads beside the sources.
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert {project["readme"], *project["license-files"]} <= set(copied)


def test_extras_and_files_of_the_install_exist() -> None:
    (install,) = [one.value for one in instructions() if one.name == "RUN" and "pip install" in one.value]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert '".[$EXTRAS]"' in install
    (default,) = [one.value for one in instructions() if one.name == "ARG"]
    wanted = default.removeprefix("EXTRAS=").split(",")
    assert wanted and all(extra in project["optional-dependencies"] for extra in wanted)
    assert "-c constraints.txt" in install


@pytest.mark.slow
def test_a_wheel_is_built_from_what_is_copied(tmp_path: Path) -> None:
    copied = [one.value.split()[:-1] for one in instructions() if one.name == "COPY" and "--from" not in one.value]
    source = tmp_path / "build"
    source.mkdir()
    for name in (name for names in copied for name in names):
        subprocess.run(["cp", "-r", str(ROOT / name), str(source)], check=True)
    wheels, clean = tmp_path / "wheels", tmp_path / "clean"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    build = [*pip, "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(wheels), str(source)]
    subprocess.run(build, check=True)
    (wheel,) = wheels.glob("headwater-*.whl")
    # Into an environment of its own: in the one of the tests, pip would put it in the place of what is tested.
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(clean)], check=True)
    install = [*pip, "--python", str(clean / "bin" / "python"), "install", "--quiet", "--no-deps", str(wheel)]
    subprocess.run(install, check=True)
    # What it needs is borrowed from here.
    environment = {**os.environ, "PYTHONPATH": str(Path(click.__file__).parents[1])}
    program = [str(clean / "bin" / "headwater"), *json.loads(last("CMD"))[:1], "--help"]
    told = subprocess.run(program, env=environment, capture_output=True, text=True, check=True)
    assert "--host" in told.stdout


def built(source: Path, temporary: Path, **settings: str) -> None:
    """What hatchling calls for an editable installation of the folder."""
    code = (
        "import os; from hatch_build import NativeModules\n"
        "hook = NativeModules(os.getcwd(), {}, None, None, '', 'wheel')\n"
        "hook.initialize('editable', {}); hook.finalize('editable', {}, '')"
    )
    environment = {**os.environ, "TMPDIR": str(temporary), **settings}
    subprocess.run([sys.executable, "-c", code], cwd=source, env=environment, check=True)


@pytest.mark.parametrize("settings", [{"CC": "false"}, {"HEADWATER_NATIVE": "0"}])
def test_a_build_without_native_code_takes_away_the_old_and_leaves_nothing(
    tmp_path: Path, settings: dict[str, str]
) -> None:
    source, temporary = tmp_path / "source", tmp_path / "temporary"
    temporary.mkdir()
    shutil.copytree(ROOT / "native", source / "native")
    (source / "src" / "headwater").mkdir(parents=True)
    shutil.copy(ROOT / "hatch_build.py", source)
    earlier = source / "src" / "headwater" / "_native_lanes.so"
    earlier.write_bytes(b"of an earlier version")
    built(source, temporary, **settings)
    assert not earlier.exists()
    assert list(temporary.iterdir()) == []


def health(port: int) -> int:
    """The exit code of the image's health check, asked of another port."""
    check = json.loads(last("HEALTHCHECK").partition("CMD ")[2])
    environment = {**os.environ, "PORT": str(port)}
    return subprocess.run([sys.executable, *check[1:]], env=environment, capture_output=True, check=False).returncode


def test_the_image_s_command_wants_a_key_and_then_serves(tmp_path: Path) -> None:
    home = tmp_path / "data"
    home.mkdir()
    arguments = json.loads(last("CMD"))
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HEADWATER_")} | {
        "HEADWATER_HOME": str(home),
        "PORT": "0",
    }
    program = [sys.executable, "-m", "headwater", *arguments]
    refused = subprocess.run(program, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert refused.returncode == 2 and "headwater key create" in refused.stderr
    ledger = Ledger(home)
    secret = ledger.keys.create("local", rights="admin")[1]
    ledger.close()
    server = Server(home, "--host", "0.0.0.0")
    try:
        assert health(server.port) == 0
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(f"http://127.0.0.1:{server.port}/api/v1/status")
        asked = urllib.request.Request(f"http://127.0.0.1:{server.port}/api/v1/status")
        asked.add_header("Authorization", f"Bearer {secret}")
        with urllib.request.urlopen(asked) as answer:
            assert json.load(answer)["code"] == 0
    finally:
        assert server.stop() == 0
    assert health(server.port) != 0


# ---------------------------------------------------------------------------------- compose and systemd


def test_compose_runs_the_image_on_this_machine_with_a_volume() -> None:
    told = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))
    service = told["services"]["headwater"]
    command, said = command_of(service["command"])
    assert command.name == "serve" and said["host"] == "0.0.0.0"
    assert service["ports"] == [f"127.0.0.1:{said['port']}:{said['port']}"]
    (mount,) = service["volumes"]
    name, _, inside = mount.partition(":")
    assert inside == last("VOLUME") and name in told["volumes"]
    assert service["read_only"] and service["cap_drop"] == ["ALL"] and "environment" not in service
    assert int(service["stop_grace_period"].rstrip("s")) >= GRACE_SECONDS + SHUTDOWN_SECONDS
    comments = re.findall(r"docker compose run --rm headwater ([\w -]+?)  ", (ROOT / "compose.yaml").read_text("utf-8"))
    assert comments and [command_of(one.split())[0].name for one in comments] == ["create"]


def test_other_services_of_compose_are_asked_for_and_reached_from_this_machine_alone() -> None:
    told = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))
    others = {name: service for name, service in told["services"].items() if name != "headwater"}
    assert "milvus" in others
    for name, service in others.items():
        assert service["profiles"] == [name]
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), name
        assert not re.search(r":latest$|^[^:]+$", service["image"]), "a version that was tried"
        assert all(mount.partition(":")[0] in told["volumes"] for mount in service["volumes"])
    assert others["milvus"]["environment"]["ETCD_USE_EMBED"] == "true"


def unit() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in (ROOT / "ops" / "headwater.service").read_text("utf-8").splitlines():
        if "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


def test_the_unit_starts_a_command_that_exists_over_its_own_state() -> None:
    told = unit()
    program, *arguments = shlex.split(told["ExecStart"][0])
    command, said = command_of(arguments)
    assert (Path(program).name, command.name, said["insecure"]) == ("headwater", "serve", False)
    assert str(said["home"]) == f"/var/lib/{told['StateDirectory'][0]}" == told["WorkingDirectory"][0]
    assert said["host"] == "127.0.0.1" and told["User"] == ["headwater"]
    assert int(told["TimeoutStopSec"][0]) >= GRACE_SECONDS + SHUTDOWN_SECONDS
    assert told["ProtectSystem"] == ["strict"] and told["NoNewPrivileges"] == ["yes"]
    # The processes that parse files leave the network by a namespace of their own.
    assert set(told["RestrictNamespaces"][0].split()) == {"user", "net"}


@pytest.mark.system
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    text = (ROOT / "ops" / "headwater.service").read_text("utf-8")
    copy = tmp_path / "headwater.service"
    copy.write_text(text.replace("/opt/headwater/bin/headwater", sys.executable), "utf-8")
    told = subprocess.run(["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, check=False)
    complaints = [line for line in told.stderr.splitlines() if "headwater.service" in line]
    assert (told.returncode, complaints) == (0, []), told.stderr


# ------------------------------------------------------------------------------------------ monitoring


@pytest.fixture(scope="module")
def exposed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, set[str]]]:
    """Every series of a live /metrics, with the labels it was seen with."""
    server = Server(tmp_path_factory.mktemp("metrics") / "home")
    try:
        dataset = server.call("POST", "/api/v1/datasets", {"name": "d"})["id"]
        upload = form({"a.md": "# Leave\n\nParental leave is 26 weeks."})
        job = server.call("POST", f"/api/v1/datasets/{dataset}/documents", upload)[0]["job_id"]
        while server.call("GET", f"/api/v1/jobs/{job}")["state"] not in ("completed", "failed"):
            pass
        for _ in range(2):
            server.call("POST", "/api/v1/retrieval", {"question": "How long is parental leave?"})
        server.call("POST", "/api/v1/ask", {"question": "How long is parental leave?"})
        with pytest.raises(SystemExit, match="404"):
            server.call("GET", "/api/v1/jobs/unknown")
        with urllib.request.urlopen(f"http://{server.host}:{server.port}/metrics") as answer:
            text = answer.read().decode()
    finally:
        server.stop()
    found: dict[str, set[str]] = {}
    for name, kind in re.findall(r"^# TYPE (\S+) (\w+)$", text, re.MULTILINE):
        for suffix in ("_bucket", "_count", "_sum") if kind == "histogram" else ("",):
            found[name + suffix] = set()
    for name, labels in re.findall(r"^(\w+)\{([^}]*)\}", text, re.MULTILINE):
        found.setdefault(name, set()).update(re.findall(r'(\w+)="', labels))
    yield found


def expressions() -> dict[str, list[str]]:
    dashboard = json.loads((ROOT / "ops" / "grafana-dashboard.json").read_text("utf-8"))
    rules = yaml.safe_load((ROOT / "ops" / "alerts.yaml").read_text("utf-8"))
    return {
        "dashboard": [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())],
        "alerts": [rule["expr"] for group in rules["groups"] for rule in group["rules"]],
    }


FROM_PROMETHEUS = {"job", "instance", "le"}


@pytest.mark.parametrize("where", ["dashboard", "alerts"])
def test_every_metric_and_label_that_is_asked_for_is_exposed(where: str, exposed: dict[str, set[str]]) -> None:
    asked = expressions()[where]
    assert len(asked) >= 7
    for expression in asked:
        plain = re.sub(r'"[^"]*"', '""', expression)
        names = set(re.findall(r"\b((?:rag|http)_\w+)", plain)) or set(re.findall(r"\bup\b", plain))
        assert names, expression
        grouped = {label.strip() for by in re.findall(r"\b(?:by|on) \(([^)]*)\)", plain) for label in by.split(",")}
        wanted = (grouped | set(re.findall(r"(\w+)=", plain))) - FROM_PROMETHEUS
        for name in names - {"up"}:
            assert name in exposed, f"{name} of {expression}"
            assert wanted <= exposed[name] or not exposed[name], f"{wanted} of {expression}, {exposed[name]}"


def test_the_dashboard_shows_every_metric_there_is(exposed: dict[str, set[str]]) -> None:
    shown = " ".join(expressions()["dashboard"])
    families = {re.sub(r"_(bucket|count|sum|created)$", "", name) for name in exposed}
    # A counter's name ends with what it counts to; prometheus_client also says when each was made.
    kept = {name for name in families if name + "_total" not in families and name.startswith(("rag_", "http_"))}
    missing = {name for name in kept if name.removesuffix("_created") not in shown and name not in shown}
    assert {name for name in missing if not name.endswith("_created")} == set()


def test_panels_do_not_overlap_and_have_a_unit() -> None:
    panels = json.loads((ROOT / "ops" / "grafana-dashboard.json").read_text("utf-8"))["panels"]
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
        assert panel["type"] == "row" or panel["fieldConfig"]["defaults"]["unit"]
    assert len({panel["id"] for panel in panels}) == len(panels)
