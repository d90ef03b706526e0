"""What an answer says of the launch command that its question was read from: every flag, and what became of it."""

from __future__ import annotations

import contextlib
from typing import Any

from computeledger.errors import InputError
from computeledger.fields import fields_of
from computeledger.questions.wording import show
from computeledger.workloads.commands.read import Read, engine_defaults, overridden, read_commands
from computeledger.workloads.questions.serve import ServeQuestion


def command_document(question: ServeQuestion) -> dict[str, Any]:
    """Flags of the command by what they are for the answer; nothing where no command was given."""
    if not question.from_command:
        return {}
    read = _read(question.from_command, question.model)
    defaults = engine_defaults(read, question.system)
    taken = {name: value for name, value in defaults.items() if getattr(question, name) == value}
    return {
        "from_command": {
            "engine": read.engine,
            "options": [{"flag": flag, "field": name} for flag, name in read.options],
            "engine_defaults": taken,
            "ignored": list(read.ignored),
            "not_modelled": list(_not_modelled(read, question)),
            "overridden": [
                {"field": name, "command": said, "question": own}
                for name, (said, own) in overridden(read, _asked(question)).items()
            ],
        }
    }


def command_remarks(question: ServeQuestion) -> list[str]:
    """Conflicts of the command with options beside it, and what the answer leaves out of it."""
    if not question.from_command:
        return []
    read = _read(question.from_command, question.model)
    left = _not_modelled(read, question)
    return [
        *read.remarks,
        *([f"not modelled, of the command: {'; '.join(left)}"] if left else []),
        *(_conflict(name, said, own) for name, (said, own) in overridden(read, _asked(question)).items()),
    ]


def _read(text: str, model: str) -> Read:
    """The commands as the question was read from them: with their own model, or with one that was named beside them."""
    with contextlib.suppress(InputError):
        own = read_commands(text)
        if own.fields["model"] == model:
            return own
    return read_commands(text, model)


def _conflict(name: str, said: Any, own: Any) -> str:
    option = fields_of(ServeQuestion)[name].option
    if own in (None, False):
        return f"{option} {_value(said)} of the command is left out: another engine is asked about"
    return f"{option} {_value(own)} goes before the command's {_value(said)}"


def _asked(question: ServeQuestion) -> dict[str, Any]:
    return {name: getattr(question, name) for name in fields_of(ServeQuestion)} | {"backend": question.engine}


def _value(value: Any) -> str:
    return value if isinstance(value, str) else show(value, "")


def _not_modelled(read: Read, question: ServeQuestion) -> tuple[str, ...]:
    if not read.drafts or question.draft_tokens:
        return read.not_modelled
    return (*read.not_modelled, f"{read.drafts} (add --tokens-per-step: no command says how many drafts are accepted)")
