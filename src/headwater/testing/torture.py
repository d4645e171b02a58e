"""Kill a real `headwater add` at random moments and look at what is left.

Every document carries its version in each of its paragraphs. After a kill a reader must find, for each document,
either the version before the interrupted run or the one it was bringing in, never a mix, never less than what an
earlier run acknowledged; and `check --repair` must leave nothing to find.
"""

import json
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

WORDS = ["river", "gauge", "sluice", "meadow", "ferry", "willow", "水位", "河流", "泵站", "闸门", "流量", "雨季"]


@dataclass
class Figures:
    """What a torture run saw."""

    kills: int = 0
    finished_before_the_kill: int = 0
    documents: int = 0
    searches: int = 0
    checks_with_something_to_mend: int = 0
    faults: list[str] = field(default_factory=list)


class Torture:
    """One home, one folder of documents, and a clock that nobody can trust."""

    def __init__(self, folder: Path, *, documents: int, paragraphs: int, seed: int) -> None:
        self.files, self.home = folder / "files", folder / "kb"
        self.paragraphs, self.random = paragraphs, random.Random(seed)
        self.files.mkdir(parents=True)
        self.acknowledged = dict.fromkeys(range(documents), 0)
        self.written = dict.fromkeys(range(documents), 1)
        self.figures = Figures(documents=documents)
        for number in self.written:
            self._write(number)

    def run(self, kills: int) -> Figures:
        """Kill until `kills` runs were hit in the middle, then let one run finish, and look at everything."""
        self._complete()
        typical = self._time_of_a_full_run()
        while self.figures.kills < kills and self.figures.finished_before_the_kill < kills:
            self._change_some()
            started = time.monotonic()
            if self._killed(self.random.uniform(0.2, 1.0) * typical):
                self.figures.kills += 1
            else:  # the machine is quicker than it was: aim earlier
                self.figures.finished_before_the_kill += 1
                typical = time.monotonic() - started
            self._look()
            self._mend()
        self._complete()
        self._look()
        if problems := self._headwater("check", "--json", "--home", str(self.home)).get("problems"):
            self.figures.faults.append(f"after the last run: {problems}")
        return self.figures

    def _path(self, number: int) -> Path:
        return self.files / f"document-{number:04d}.md"

    def _write(self, number: int) -> None:
        version = self.written[number]
        lines = [f"# Document {number}"]
        for paragraph in range(self.paragraphs):
            filler = " ".join(self.random.choices(WORDS, k=40))
            lines.append(f"mark{number}v{version} paragraph {paragraph} {filler}.")
        self._path(number).write_text("\n\n".join(lines), encoding="utf-8")

    def _change_some(self) -> None:
        for number in self.random.sample(sorted(self.written), max(1, len(self.written) // 2)):
            self.written[number] += 1
            self._write(number)

    def _command(self) -> list[str]:
        return [sys.executable, "-m", "headwater", "add", str(self.files), "--json", "--home", str(self.home)]

    def _headwater(self, *arguments: str) -> dict[str, object]:
        command = [sys.executable, "-m", "headwater", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if not done.stdout.strip():
            self.figures.faults.append(f"{arguments[0]} said nothing but: {done.stderr.strip()[-400:]}")
            return {}
        printed: dict[str, object] = json.loads(done.stdout)
        return printed

    def _complete(self) -> None:
        done = subprocess.run(self._command(), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            self.figures.faults.append(f"add failed: {done.stdout[-400:]} {done.stderr[-400:]}")
        self.acknowledged = dict(self.written)

    def _time_of_a_full_run(self) -> float:
        self._change_some()
        started = time.monotonic()
        self._complete()
        return time.monotonic() - started

    def _killed(self, after_seconds: float) -> bool:
        """Start an add and kill it; False when it had finished, and so acknowledged everything, before."""
        running = subprocess.Popen(self._command(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            code = running.wait(after_seconds)
        except subprocess.TimeoutExpired:
            running.send_signal(signal.SIGKILL)
            running.wait()
            return True
        if code != 0:
            self.figures.faults.append(f"add ended with {code}")
        self.acknowledged = dict(self.written)
        return False

    def _look(self) -> None:
        from headwater.build import open_home

        with open_home(self.home, create=False) as kb:
            uris = {record.uri: record.id for record in kb.documents()}
            for number, latest in self.written.items():
                path = self._path(number).as_posix()
                if path not in uris:
                    self.figures.faults.append(f"document {number} is lost")
                    continue
                text = kb.document(uris[path]).text
                versions = {word for word in text.split() if word.startswith(f"mark{number}v")}
                possible = {f"mark{number}v{v}" for v in range(self.acknowledged[number], latest + 1)}
                if len(versions) != 1 or not versions <= possible:
                    self.figures.faults.append(f"document {number} holds {versions}, not one of {possible}")
                    continue
                self._search(kb, number, next(iter(versions)))

    def _search(self, kb: object, number: int, mark: str) -> None:
        from headwater.build import KnowledgeBase

        assert isinstance(kb, KnowledgeBase)
        self.figures.searches += 1
        for mode in ("keyword", "hybrid"):
            hits = kb.search(mark, mode=mode, top_n=50)
            own = [hit for hit in hits if hit.uri == self._path(number).as_posix()]
            if not own:
                self.figures.faults.append(f"{mode} search for {mark} does not find it")
            for hit in own:
                if mark not in hit.chunk.text and f"mark{number}v" in hit.chunk.text:
                    self.figures.faults.append(f"{mode} search for {mark} shows {hit.chunk.text[:40]!r}")

    def _mend(self) -> None:
        if self._headwater("check", "--json", "--home", str(self.home)).get("problems"):
            self.figures.checks_with_something_to_mend += 1
            mended = self._headwater("check", "--repair", "--json", "--home", str(self.home))
            if mended.get("problems"):
                self.figures.faults.append(f"check --repair left {mended['problems']}")
            self._look()
