"""Errors that click finds on the command line, in the form of all others: what happened, why, and what to do."""

from __future__ import annotations

from collections.abc import Sequence

import click

from hipsynth.core.errors import UsageError


def usage_error(error: click.ClickException) -> UsageError:
    """The typed error for one of click. Its remedy is the help of the verb that was called."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    remedy = f"{context.command_path if context else 'synth'} --help"
    if isinstance(error, click.MissingParameter):
        return UsageError(_begin_lower(error.format_message()), remedy=remedy)
    if isinstance(error, click.BadParameter):
        return UsageError(
            f"invalid value for {_name_parameter(error)}", cause=_strip_period(error.message), remedy=remedy
        )
    near: Sequence[str] = getattr(error, "possibilities", None) or ()  # of unknown options and, since 8.4, commands
    cause = f"did you mean {near[0]}?" if near else ""
    if isinstance(error, click.NoSuchOption):
        return UsageError(f"no such option: {error.option_name}", cause=cause, remedy=remedy)
    return UsageError(_begin_lower(error.message if near else error.format_message()), cause=cause, remedy=remedy)


def _name_parameter(error: click.BadParameter) -> str:
    """The option or argument as the help names it."""
    if error.param is not None:
        return error.param.get_error_hint(error.ctx) if error.ctx else error.param.human_readable_name
    hint = error.param_hint
    return "an option" if hint is None else hint if isinstance(hint, str) else " / ".join(hint)


def _begin_lower(text: str) -> str:
    return _strip_period(text[:1].lower() + text[1:])


def _strip_period(text: str) -> str:
    return text.strip().removesuffix(".")
