"""Options with a former name or meaning: hidden, and answered with what to write instead (exit status 2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable

_Command = TypeVar("_Command", bound="Callable[..., Any]")


def refuse_option(*names: str, instead: str, is_flag: bool = False) -> Callable[[_Command], _Command]:
    """Return a hidden option that is refused; `instead` is what to write, with {value} for the given value."""

    def refuse_old_form(context: click.Context, option: click.Parameter, value: object) -> None:
        if value in {None, False} or context.resilient_parsing:
            return
        written = option.opts[0] if is_flag else f"{option.opts[0]} {value}"
        raise click.UsageError(f"{written}: write {instead.format(value=value)} instead", context)

    return click.option(
        *names,
        f"old_{names[-1].lstrip('-').replace('-', '_')}",
        is_flag=is_flag,
        hidden=True,
        expose_value=False,
        callback=refuse_old_form,
    )


class FormatChoice(click.Choice[str]):
    """A format of output; for a path, which -o named formerly, the message says what to write instead."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the format."""
        if value not in self.choices and ("/" in value or "." in value):
            formats = ", ".join(self.choices)
            self.fail(f"-o is a format ({formats}); to write below a folder, write --to {value} instead", param, ctx)
        return super().convert(value, param, ctx)
