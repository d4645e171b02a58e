"""The option that teaches a shell to complete commands and options: a script that it loads at its start."""

import os
import re
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from headwater.errors import BackendError, UsageError

SHELLS = ("bash", "zsh", "fish")
OF_THE_ENVIRONMENT = "auto"
COMPLETE_VARIABLE = "_HEADWATER_COMPLETE"


def install_completion(context: click.Context, shell: str) -> None:
    """Write the script, see that the shell loads it, and end. Doing it twice is doing it once."""
    if context.resilient_parsing:
        return
    if shell == OF_THE_ENVIRONMENT:
        shell = Path(os.environ.get("SHELL", "")).name
        if shell not in SHELLS:
            raise UsageError(f"which shell is not known (SHELL is {shell!r}); say one of: {', '.join(SHELLS)}")
    complete = get_completion_class(shell)
    assert complete is not None
    text = complete(context.command, {}, "headwater", COMPLETE_VARIABLE).source()
    try:
        script, start = _install(shell, text)
    except OSError as error:
        raise BackendError(f"the completion cannot be written: {error}") from error
    click.echo(f"{shell} completes headwater from its next start: {script}" + (f", loaded by {start}" if start else ""))
    context.exit()


def _install(shell: str, script: str) -> tuple[Path, Path | None]:
    """Where the script is now, and the file that loads it where the shell does not find it by itself."""
    home = Path.home()
    if shell == "fish":
        folder = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "fish" / "completions"
        return _written(folder / "headwater.fish", script), None
    folder = Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share") / "headwater-completion"
    path = _written(folder / f"headwater.{shell}", script)
    start = home / ".bashrc" if shell == "bash" else Path(os.environ.get("ZDOTDIR") or home) / ".zshrc"
    before = start.read_text(encoding="utf-8", errors="surrogateescape") if start.exists() else ""
    line = f". '{path}'  # completes headwater"
    if shell == "zsh" and not re.search(r"^[^#\n]*\bcompinit\b", before, re.MULTILINE):
        line = f"autoload -Uz compinit && compinit\n{line}"
    if str(path) not in before:
        gap = "" if not before or before.endswith("\n") else "\n"
        start.write_text(f"{before}{gap}{line}\n", encoding="utf-8", errors="surrogateescape")
    return path, start


def _written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.rstrip() + "\n", encoding="utf-8")
    return path
