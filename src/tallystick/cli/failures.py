"""How a command ends: the exit status, and one message instead of a stack trace."""

from __future__ import annotations

import io
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click
import msgspec

from tallystick import errors

DONE, NO, COULD_NOT = 0, 1, 2
_VERDICT = "tallystick.verdict"


def decide(status: int) -> int:
    """Fix the exit status before the answer is printed, so that closing the pipe early does not change it."""
    click.get_current_context().meta[_VERDICT] = status
    return status


@contextmanager
def needing_spark(library: str) -> Iterator[None]:
    """Say what to install if this library, or another one that Spark's jobs need, is missing."""
    try:
        yield
    except ModuleNotFoundError as missing:
        raise errors.SparkMissing(library=missing.name or library) from missing


@contextmanager
def quiet_interruptions(ctx: click.Context) -> Iterator[None]:
    """End quietly on Ctrl-C, or if the reader of the output is gone (`| head`)."""
    try:
        yield
    except BrokenPipeError:
        _drop_output()
        raise click.exceptions.Exit(ctx.meta.get(_VERDICT, DONE)) from None
    except KeyboardInterrupt:
        raise click.exceptions.Exit(COULD_NOT) from None


def _drop_output() -> None:
    """Redirect stdout to the null device: the interpreter flushes it again when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def exit_status(run: Callable[[], Any], *, as_json: bool) -> int:
    """Run a command line and return its exit status. Errors are printed on stderr."""
    _never_fail_to_print()
    with warnings.catch_warnings():
        _show_warnings_as_lines()
        try:
            status = run()
        except click.ClickException as problem:
            _show_click(problem, as_json=as_json)
            return COULD_NOT
        except click.Abort:
            return COULD_NOT
        except errors.TallyError as problem:
            _show(problem.as_json(), as_json=as_json)
            return problem.exit_status
        except OSError as problem:
            _show(_described(problem), as_json=as_json)
            return COULD_NOT
        except Exception as problem:
            _show(_internal(problem), as_json=as_json)
            if os.environ.get("TALLY_DEBUG"):
                traceback.print_exc()
            return COULD_NOT
    return status if isinstance(status, int) else DONE


def _never_fail_to_print() -> None:
    """Escape characters that the encoding of the terminal lacks."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _show(document: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        click.echo(msgspec.json.encode(document), err=True)
        return
    from tallystick.cli.output import printable

    label = "" if document["error"] == "InternalError" else click.style("error: ", fg="red")
    click.echo(label + printable(document["message"]), err=True)
    if document["advice"]:
        click.echo("  " + printable(document["advice"]), err=True)


def _show_click(problem: click.ClickException, *, as_json: bool) -> None:
    is_usage = isinstance(problem, click.UsageError)
    if is_usage and not as_json:
        problem.show()
        return
    name = "Usage" if is_usage else "CouldNotRun"
    _show({"error": name, "message": problem.format_message(), "advice": "", "values": {}}, as_json=as_json)


def _described(problem: OSError) -> dict[str, Any]:
    message = problem.strerror or str(problem) or type(problem).__name__
    if problem.filename is not None:
        message = f"{os.fsdecode(problem.filename)}: {message}"
    return {"error": "OSError", "message": message, "advice": "", "values": {"errno": problem.errno}}


def _internal(problem: Exception) -> dict[str, Any]:
    message = f"internal error: {type(problem).__name__}: {problem}".splitlines()[0]
    return {"error": "InternalError", "message": message, "advice": "Set TALLY_DEBUG=1 to see the trace.", "values": {}}


def _show_warnings_as_lines() -> None:
    """Print warnings for users as one line each, and hide those for programmers."""

    def show(message: Warning | str, category: type[Warning], *place: object, **more: object) -> None:
        if issubclass(category, UserWarning):
            click.echo(click.style("warning: ", fg="yellow") + str(message), err=True)

    warnings.showwarning = show
