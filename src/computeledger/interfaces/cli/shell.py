"""The commands ``completion`` and ``man``: for the shell that the others are typed in."""

from __future__ import annotations

import click

from computeledger.errors import InputError, nearest, shown

_SHELLS = ("bash", "fish", "zsh")
NAME = "computeledger"


@click.command()
@click.argument("shell", metavar="|".join(_SHELLS))
def completion(shell: str) -> None:
    """A script that completes commands and options where you type them.

    bash: `eval "$(computeledger completion bash)"` in ~/.bashrc. zsh: the same in ~/.zshrc. fish: `computeledger
    completion fish > ~/.config/fish/completions/computeledger.fish`.
    """
    from click.shell_completion import get_completion_class

    from computeledger.interfaces.cli import cli

    found = get_completion_class(shell) if shell in _SHELLS else None
    if found is None:
        raise InputError(f"{shown(shell)}: no shell whose completion is known; {nearest(shell, _SHELLS)}")
    click.echo(found(cli, {}, NAME, f"_{NAME.upper()}_COMPLETE").source())


@click.command()
def man() -> None:
    """The manual page: `computeledger man > computeledger.1`, then `man -l computeledger.1`."""
    from importlib.metadata import version

    from computeledger.interfaces.cli import cli
    from computeledger.interfaces.manual import manual

    click.echo(manual(cli, NAME, version(NAME)), nl=False)
