"""The code of a run: the hash of each node's source and parameters, and the commit of its repository."""

from __future__ import annotations

import functools
import hashlib
import importlib
import inspect
import os
import re
import subprocess
import textwrap
from collections.abc import Callable
from types import CodeType
from typing import TYPE_CHECKING, Any

import msgspec

from tallystick import errors
from tallystick.event import canonical

if TYPE_CHECKING:
    from tallystick.runs.workflow import Workflow

_GIT_SECONDS = 5
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_HEAD = "# branch.oid "
_NO_COMMIT = "(initial)"


class SourceCommit(msgspec.Struct, frozen=True):
    """The commit of a working tree; `dirty` if files under version control differ from it."""

    id: str | None = None
    dirty: bool = False


def version(function: Callable[..., Any], params: dict[str, Any]) -> str:
    """The hash of a function's source and of its declared parameters."""
    text = _source(function) + b"\n" + (canonical.encode(params, what="params") if params else b"{}")
    return hashlib.sha256(text).hexdigest()


def _source(function: Callable[..., Any]) -> bytes:
    """The source text of a callable: for a partial its function and arguments, for an object its class."""
    if isinstance(function, functools.partial):
        given = _ADDRESS.sub("", repr((function.args, sorted(function.keywords.items()))))
        return _source(function.func) + b"\n" + given.encode(errors="backslashreplace")
    if inspect.isroutine(function) or isinstance(function, type):
        return _text(function)
    kind: Any = type(function)
    return _text(kind)


@functools.lru_cache(maxsize=1 << 16)
def _text(function: Callable[..., Any]) -> bytes:
    """The source text, or the compiled code if there is none (a prompt, a frozen module)."""
    try:
        return textwrap.dedent(inspect.getsource(function)).encode()
    except (OSError, TypeError):
        found = getattr(function, "__code__", None)
        return repr(_compiled(found) if isinstance(found, CodeType) else function.__qualname__).encode()


def _compiled(found: CodeType) -> tuple[Any, ...]:
    constants = [_compiled(item) if isinstance(item, CodeType) else repr(item) for item in found.co_consts]
    return (found.co_code.hex(), found.co_names, constants)


def load(reference: str) -> Workflow:
    """The workflow that MODULE:NAME names."""
    from tallystick.runs.workflow import Workflow

    module, colon, name = reference.partition(":")
    if not colon or not module or not name:
        raise errors.NotLoadable(reference=reference, reason="it is not MODULE:WORKFLOW")
    try:
        found = getattr(importlib.import_module(module), name)
    except (Exception, SystemExit) as problem:  # the user's module may raise anything on import
        raise errors.NotLoadable(reference=reference, reason=f"{type(problem).__name__}: {problem}") from problem
    if not isinstance(found, Workflow):
        raise errors.NotLoadable(reference=reference, reason=f"it is {type(found).__name__}, not a Workflow")
    return found


def commit_of(directory: str) -> SourceCommit:
    """The current commit of a directory; None without a repository, a commit or git."""
    told = _git(directory, "status", "--porcelain=v2", "--branch", "--untracked-files=no") or ""
    lines = told.splitlines()
    head = next((line.removeprefix(_HEAD) for line in lines if line.startswith(_HEAD)), _NO_COMMIT)
    if head == _NO_COMMIT:
        return SourceCommit()
    return SourceCommit(head, any(not line.startswith("#") for line in lines))


def directory_of(workflow: Workflow) -> str:
    """The directory of a workflow's code."""
    for node in workflow.nodes.values():
        file: str | None = getattr(inspect.getmodule(node.function), "__file__", None)
        if file:
            return os.path.dirname(os.path.abspath(file))
    return os.getcwd()


def _git(directory: str, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", directory, *arguments],
            capture_output=True,
            text=True,
            timeout=_GIT_SECONDS,
            check=False,
            env=os.environ | {"GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"},
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout if done.returncode == 0 else None
