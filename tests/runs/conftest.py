"""The example workflow, stores of every engine, and a workflow that counts how often its nodes ran."""

from __future__ import annotations

import functools
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
if str(ROOT) not in sys.path:  # `examples` is a plain folder at the root of the repository
    sys.path.append(str(ROOT))

import tallystick  # noqa: E402
from examples.invoices import invoices  # noqa: E402
from tallystick import Store  # noqa: E402
from tallystick.runs import Workflow  # noqa: E402

INBOX = ROOT / "examples" / "inbox.txt"
ENGINES = ("ndjson", "sqlite", "files", "memory")


def counting(flow: Workflow, counts: Path) -> Workflow:
    """The same workflow, whose nodes note in a file that they began, before they do anything."""
    twin = Workflow(flow.name)
    for item in flow.inputs.values():
        twin.input(item.name, path=item.place, schema_id=item.schema_id)
    for node in flow.nodes.values():

        @functools.wraps(node.function)
        def counted(work: Any, function: Callable[[Any], Any] = node.function, name: str = node.name) -> Any:
            descriptor = os.open(counts, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.write(descriptor, f"{name}\n".encode())
            os.close(descriptor)
            return function(work)

        twin.add(
            node.name,
            counted,
            inputs=node.inputs,
            outputs=node.outputs,
            after=node.after,
            params=node.params,
            section=node.section,
            retries=node.retries,
            backoff_ms=node.backoff_ms,
        )
    return twin


def counted(counts: Path) -> Counter[str]:
    """How often each node began."""
    return Counter(counts.read_text().split()) if counts.exists() else Counter()


class Bench:
    """A place for runs: a store, a workspace, a file of counts."""

    def __init__(self, engine: str, root: Path) -> None:
        self.engine = engine
        self.root = root
        self.counts = root / "counts"
        self.workspace = str(root / "workspace")
        self.url = {"memory": "memory:", "sqlite": f"sqlite:{root}/log.db"}.get(engine, f"{engine}:{root}/log")
        self.inputs = {"inbox.txt": str(INBOX)}

    def open(self, **options: Any) -> Store:
        """The store."""
        return tallystick.open(self.url, **options)

    def counting(self, flow: Workflow = invoices) -> Workflow:
        """The example, counting."""
        return counting(flow, self.counts)

    def counted(self) -> Counter[str]:
        """How often each node ran."""
        return counted(self.counts)

    def file(self, name: str) -> Path:
        """A file of the workspace."""
        return Path(self.workspace) / name

    def artifacts(self) -> dict[str, bytes]:
        """Every file of the workspace."""
        found = Path(self.workspace).rglob("*")
        return {str(path.relative_to(self.workspace)): path.read_bytes() for path in found if path.is_file()}


@pytest.fixture(params=ENGINES)
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Bench:
    """A place for runs, on each engine."""
    return Bench(request.param, tmp_path)


@pytest.fixture
def shelf(tmp_path: Path) -> Bench:
    """A place for runs in directories."""
    return Bench("ndjson", tmp_path)


@pytest.fixture
def make_bench(tmp_path: Path) -> Callable[..., Bench]:
    """Places for runs by name."""

    def make(name: str, engine: str = "ndjson", *, root: Path = tmp_path) -> Bench:
        place = root / name
        place.mkdir()
        return Bench(engine, place)

    return make


@pytest.fixture
def store(bench: Bench) -> Iterator[Store]:
    """The store of the bench, open for writing."""
    with bench.open() as found:
        yield found


@pytest.fixture
def flow() -> Workflow:
    """The example."""
    return invoices
