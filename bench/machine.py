"""What the figures were measured on: a figure without its machine says little."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = ("tallystick", "msgspec", "umadb", "eventsourcing")


def describe(place: Path) -> dict[str, Any]:
    """Cores, memory, system, versions, and the file system the stores are on."""
    return {
        "system": f"{platform.system()} {platform.release()}",
        "architecture": platform.machine(),
        "cores": os.cpu_count(),
        "memory_mb": _memory_mb(),
        "python": platform.python_version(),
        "packages": {name: version for name in PACKAGES if (version := _version(name))},
        "free_disk_mb": shutil.disk_usage(place).free >> 20,
        "load_before": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
    }


def rss_mb(*, peak: bool = False) -> float:
    """The resident memory of this process, now or at its highest."""
    status = Path("/proc/self/status")
    if status.exists():
        key = "VmHWM:" if peak else "VmRSS:"
        line = next(line for line in status.read_text().splitlines() if line.startswith(key))
        return int(line.split()[1]) / 1024
    import resource  # elsewhere only the peak can be had without another package

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def _memory_mb() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    except (ValueError, OSError, AttributeError):
        return None


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
