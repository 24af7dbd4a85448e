"""Documents next to the log of a run: `snapshot.json`, and `failure.json` if the log is unreadable. Replaced whole."""

from __future__ import annotations

from tallystick import errors
from tallystick.engines.ndjson import paths
from tallystick.store.filesystem import FULL, FileSystem, replace_file


class Documents:
    """Reads and replaces documents in the directory of a run. `tallystick.runs` knows what they mean."""

    def __init__(self, files: FileSystem, directory: str) -> None:
        self._files = files
        self._directory = directory

    def place(self, run: str) -> str:
        """The directory of a run, which need not exist yet."""
        return f"{self._directory}/{paths.path_of(f'run/{run}')}"

    def exists(self, run: str) -> bool:
        """Whether the run has a directory."""
        return self._files.exists(self.place(run))

    def load(self, run: str, name: str) -> bytes | None:
        """The bytes of a document; None if it does not exist."""
        path = f"{self.place(run)}/{name}"
        if not self._files.exists(path):
            return None
        try:
            file = self._files.open_read(path)
            try:
                return file.read_at(0, file.size())
            finally:
                file.close()
        except OSError as problem:
            raise errors.ReadFailed(path=path, reason=str(problem)) from problem

    def remove(self, run: str, name: str) -> None:
        """Delete a document if it exists."""
        path = f"{self.place(run)}/{name}"
        try:
            if self._files.exists(path):
                self._files.unlink(path)
                self._files.sync_dir(self.place(run))
        except OSError as problem:
            raise errors.StoreFailed(operation=f"removing {name}", reason=str(problem)) from problem

    def replace(self, run: str, name: str, data: bytes) -> None:
        """Replace a document. After a crash it is the old one or the new one."""
        try:
            replace_file(self._files, self.place(run), name, data)
        except OSError as problem:
            if problem.errno in FULL:
                raise errors.NoSpace(needed=len(data), path=self.place(run)) from problem
            raise errors.StoreFailed(operation=f"replacing {name}", reason=str(problem)) from problem
