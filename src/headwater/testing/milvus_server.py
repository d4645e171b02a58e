"""A folder -> a real Milvus on this machine alone, for tests: the server of the package `milvus` (Linux on x86-64).

One process with everything inside, on free ports of the loopback interface, set to do as little as it can beside
answering. It never outlives the process that started it: between both stands a keeper that kills it when its own input
ends, which happens however the process that holds the other end ends.
"""

from __future__ import annotations

import importlib.util
import lzma
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import platformdirs
import yaml

from headwater.testing.ports import free_port

PACKAGE: Final = "milvus"
VERSION: Final = "2.3.5"
ETCD_FILE: Final = "etcd.yaml"
# The template writes `{{ name(type): default }}`; ports have defaults that may be taken.
_PLACE: Final = re.compile(r"\{\{\s*(\w+)(?:\(\w+\))?(?::\s*([^}]*?))?\s*\}\}")
# The user that every new server has.
TOKEN: Final = "root:Milvus"
START_SECONDS: Final = 90.0
POLL_SECONDS: Final = 0.05
# A write is seen with the next tick: more of them make waiting for one shorter.
TICK_MILLISECONDS: Final = 20
# A server ends when it could not say for so long that it is there, which a busy machine may keep it from.
SESSION_SECONDS: Final = 30
LOOKS: Final = ("checkInterval", "checkChannelInterval", "checkSegmentInterval", "distPullInterval")
LOOK_MILLISECONDS: Final = 50
# Go's collector returns memory earlier, and two threads do for two clients.
ENVIRONMENT: Final = {"DEPLOY_MODE": "STANDALONE", "GOGC": "50", "GOMAXPROCS": "2"}

_KEEPER: Final = """
import ctypes, signal, subprocess, sys
def with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: should the keeper itself be killed
server = subprocess.Popen(sys.argv[1:], preexec_fn=with_parent, stdin=subprocess.DEVNULL)
signal.signal(signal.SIGINT, signal.SIG_IGN)
print(server.pid, flush=True)
sys.stdin.read()
server.kill()
server.wait()
"""


class MilvusServer:
    """One server. `start` after `stop` goes on with the same data on the same port.

    A server that was killed counts as alive for `session_seconds`, and its collections cannot be searched for as long.
    """

    token: Final = TOKEN

    def __init__(self, folder: Path, *, session_seconds: int = SESSION_SECONDS) -> None:
        self.folder, self._session_seconds = folder, session_seconds
        self.port, self._health_port = free_port(), free_port()
        self._keeper: subprocess.Popen[bytes] | None = None

    @property
    def uri(self) -> str:
        """What clients connect to."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Returns when it answers; raises RuntimeError with what to do where it cannot."""
        programs = _programs(self.folder)
        if not (self.folder / "configs").exists():
            self._configure()
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MILVUS")}
        environment |= ENVIRONMENT | {
            "METRICS_PORT": str(self._health_port),
            "MILVUS_RUN_DIR": str(self.folder / "run"),
            "LD_LIBRARY_PATH": str(programs),
            "ETCD_CONFIG_PATH": str(self.folder / "configs" / ETCD_FILE),
        }
        command = [sys.executable, "-c", _KEEPER, str(programs / PACKAGE), "run", "standalone"]
        with (self.folder / "server.log").open("ab") as log:
            self._keeper = subprocess.Popen(
                command, cwd=self.folder, env=environment, stdin=subprocess.PIPE, stdout=log, stderr=log
            )
        deadline = time.monotonic() + START_SECONDS
        while not self._is_healthy():
            if self._keeper.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(f"Milvus did not start: {(self.folder / 'server.log').read_text('utf-8')[-2000:]}")
            time.sleep(POLL_SECONDS)

    def stop(self) -> None:
        """Kill it, as a power cut would; what it acknowledged is there after the next start."""
        if self._keeper is None:
            return
        assert self._keeper.stdin is not None
        self._keeper.stdin.close()
        self._keeper.wait(timeout=START_SECONDS)
        self._keeper = None

    def _is_healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._health_port}/healthz", timeout=5) as reply:
                return b"OK" in reply.read()
        except (urllib.error.URLError, OSError):
            return False

    def _configure(self) -> None:
        template = (_package() / "data" / "config.yaml.template").read_text(encoding="utf-8")
        clients, peers = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        etcd = {
            "listen-client-urls": clients,
            "advertise-client-urls": clients,
            "listen-peer-urls": peers,
            "initial-advertise-peer-urls": peers,
            "initial-cluster": f"default={peers}",
            "unsafe-no-fsync": True,
        }
        given = {
            "proxy_port": self.port,
            "authorization_enabled": "true",
            "etcd_port": clients.rpartition(":")[2],
            "etcd_data_dir": self.folder / "data" / "etcd",
            "etcd_log_path": self.folder / "etcd.log",
            "etcd_log_level": "error",
            "local_storage_dir": self.folder / "data",
            "rocksmq_data_dir": self.folder / "data" / "rocksmq",
            "system_log_path": '""',
        }

        def filled(place: re.Match[str]) -> str:
            name = place[1]
            if name in given:
                return str(given[name])
            return str(free_port()) if name.endswith("_port") else place[2] or ""

        tree: dict[str, Any] = yaml.safe_load(_PLACE.sub(filled, template))
        for part in ("rootCoord", "proxy", "queryCoord", "queryNode", "indexNode", "dataCoord", "dataNode"):
            tree[part]["ip"] = "127.0.0.1"
        tree["log"]["level"] = "error"
        tree["proxy"]["timeTickInterval"] = TICK_MILLISECONDS
        tree["rootCoord"]["dmlChannelNum"] = 2
        # A collection is loaded when the next look finds it so: by default every second or so.
        tree["queryCoord"] |= dict.fromkeys(LOOKS, LOOK_MILLISECONDS)
        tree["quotaAndLimits"]["enabled"] = False
        tree["common"]["session"]["ttl"] = self._session_seconds
        configs = self.folder / "configs"
        configs.mkdir(parents=True)
        (configs / "milvus.yaml").write_text(yaml.safe_dump(tree), encoding="utf-8")
        (configs / ETCD_FILE).write_text(yaml.safe_dump(etcd), encoding="utf-8")
        shutil.copy(_package() / "data" / "glog.conf", configs)


def _package() -> Path:
    found = importlib.util.find_spec(PACKAGE)
    if found is None or found.origin is None:
        raise RuntimeError(
            f"the tests of Milvus need its server, the package {PACKAGE}=={VERSION} for Linux on x86-64: "
            f"`pip install {PACKAGE}=={VERSION}`, or leave them out with `make test-core`"
        )
    return Path(found.origin).parent


def _programs(own: Path) -> Path:
    """The server and its libraries, unpacked once for all runs where that can be kept: 246 MB and three seconds."""
    folder = platformdirs.user_cache_path("headwater-tests") / f"{PACKAGE}-{VERSION}"
    if not folder.exists():
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
        except OSError:
            folder = own / "programs"
        with tempfile.TemporaryDirectory(dir=folder.parent) as work:
            draft = Path(work) / "programs"
            draft.mkdir()
            for source in (_package() / "data" / "bin").glob("*.lzma"):
                with lzma.open(source) as read, (draft / source.stem).open("wb") as write:
                    shutil.copyfileobj(read, write, 1 << 20)
                (draft / source.stem).chmod(0o755)
            with suppress(OSError):  # another process was faster
                draft.rename(folder)
    return folder
