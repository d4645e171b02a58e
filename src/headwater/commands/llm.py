"""The commands about language models: find one or take an endpoint, try it, and write it into the settings."""

import os
import sys
from pathlib import Path
from typing import Any

import click

from headwater.commands.flags import options
from headwater.errors import BackendError, UsageError

QUESTION = "Say OK."
# Long enough to load a model of some gigabytes.
TRY_SECONDS = 90.0


@click.group()
def llm() -> None:
    """Language models: set one up, and try it.

    \b
    Example:
      headwater llm setup
    """


@llm.command()
@click.option("--base-url", default="", metavar="URL", help="The endpoint; it mostly ends in /v1.")
@click.option("--model", default="", metavar="NAME", help="The model's name there.")
@click.option("--key-variable", default="", metavar="NAME", help="The environment variable that holds the key.")
@click.option("--name", default="", metavar="NAME", help="Set it up as [llm.NAME], to be chosen by requests.")
@click.option("--no-test", is_flag=True, help="Write the settings without trying the model.")
@options("home", "json")
def setup(
    *, base_url: str, model: str, key_variable: str, name: str, no_test: bool, home: Path | None, as_json: bool
) -> None:
    """Find a local Ollama, or take an endpoint, try it, and write it into headwater.toml.

    \b
    Example:
      headwater llm setup --base-url http://127.0.0.1:8080/v1 --model qwen3:8b
    """
    from headwater.llm import install, models_at, ollama_url
    from headwater.places import default_home

    url = base_url or ollama_url()
    if url and not base_url:
        click.echo(f"found Ollama at {url}", err=as_json)
    if not url:
        url = _prompted("No Ollama runs here. Endpoint of a server that speaks the OpenAI protocol", "--base-url")
    key = os.environ.get(key_variable, "") if key_variable else ""
    if key_variable and not key:
        raise UsageError(f"the environment has no {key_variable!r}; set it to the key, and run this again")
    there = [] if model else models_at(url, key=key)
    if not model:
        known = ", ".join(there) or "unknown"
        model = there[0] if len(there) == 1 else _prompted(f"Model (there are: {known})", "--model")
    settings: dict[str, Any] = {"use": "openai", "model": model, "base_url": url}
    if key_variable:
        settings["api_key"] = f"env:{key_variable}"
    tried = None if no_test else _tried({**settings, **({"api_key": key} if key else {})})
    if tried is not None and not as_json:
        _print(tried)
    file = install(home or default_home(), settings, name=name)
    section = f"llm.{name}" if name else "generate"
    if as_json:
        from headwater.shapes import to_json

        click.echo(to_json({"file": str(file), "section": section, "settings": settings, "test": tried}))
    else:
        click.echo(f"written to {file}, section [{section}]")


@llm.command()
@click.option("--llm", "name", default="", metavar="NAME", help="A model of the settings; else the one in use.")
@options("home", "json")
def test(*, name: str, home: Path | None, as_json: bool) -> None:
    """Ask the model of the settings something short, and say how it did.

    \b
    Example:
      headwater llm test
    """
    from headwater.build import open_home
    from headwater.llm import trial
    from headwater.protocols import LanguageModel

    with open_home(home, create=False) as kb:
        writer = kb.writers.named(name) if name else kb.writers.default
        if not isinstance(writer, LanguageModel):
            raise UsageError("no language model is set up; `headwater llm setup` does it")
        found = trial(writer, QUESTION, deadline_seconds=TRY_SECONDS)
    if as_json:
        from headwater.shapes import to_json

        click.echo(to_json(found))
    else:
        _print(found)


def _prompted(question: str, option: str) -> str:
    """What a person says; where nobody is there to say it, the option that says it is named."""
    try:
        return str(click.prompt(question, err=True))
    except click.Abort as error:
        if sys.stdin.isatty():  # Ctrl-C
            raise
        raise UsageError(f"nothing was said to {question!r}; give it with {option}") from error


def _tried(settings: dict[str, Any]) -> dict[str, Any]:
    from headwater.llm import trial
    from headwater.registry import load

    arguments = {key: value for key, value in settings.items() if key != "use"}
    model: Any = load("generators", str(settings["use"]))(**arguments)
    try:
        return trial(model, QUESTION, deadline_seconds=TRY_SECONDS)
    except BackendError as error:
        raise BackendError(f"{error}; nothing was written (--no-test writes it all the same)") from error
    finally:
        model.close()


def _print(found: dict[str, Any]) -> None:
    click.echo(f"{found['model']} said {found['text']!r}")
    click.echo(
        f"first piece after {found['first_ms']:.0f} ms, done after {found['total_ms']:.0f} ms, "
        f"{found['input_tokens']}+{found['output_tokens']} tokens, room for {found['context_tokens']} tokens, "
        f"tools: {'yes' if found['tools'] else 'no'}"
    )
