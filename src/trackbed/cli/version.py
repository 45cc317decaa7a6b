"""`trackbed version`: the version."""

import click

from trackbed import __version__


@click.command("version")
def command() -> None:
    """Show the version.

    \b
    Example:
      trackbed version
    """
    click.echo(f"trackbed, version {__version__}")
