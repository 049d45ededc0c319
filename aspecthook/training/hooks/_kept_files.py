"""The checkpoint files that a hook keeps in a folder: the newest few.

A file is removed only after the one that replaces it has been written, and only if this run has saved it. A
checkpoint, which has the state of the hook, lists itself among the files that are kept, so a resumed run keeps,
replaces and removes the same files as a run that was never interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path, PurePath
from typing import final

from aspecthook._errors import brief
from aspecthook.training._errors import TrainingError
from aspecthook.training.checkpoint._files import own_path, unused_path
from aspecthook.training.checkpoint._folder import saved_by
from aspecthook.training.loop._run import Run


@final
class KeptFiles:
    """The names of the files that are kept, the oldest first; all of them, or the newest `most`."""

    __slots__ = ("_most", "due", "folder", "names", "saving")

    def __init__(self, folder: Path | None, most: int | None) -> None:
        self.folder: Path | None = folder
        self._most = most
        self.names: list[str] = []
        self.due: str | None = None  # a file that is to be saved when the stage is over
        self.saving: Path | None = None

    def load(self, who: str, names: Iterable[str], due: str | None) -> None:
        """Restore the names in the state of a hook; it saves and removes these files some day."""
        names = list(names)
        check_names(names if due is None else [*names, due], who)
        self.names, self.due = names, due

    def path(self, name: str) -> Path:
        """Return the path of a file."""
        return Path(name) if self.folder is None else self.folder / name

    def save_due(self, run: Run, undo: Callable[[], None], *, asynchronous: bool) -> None:
        """Save the file that is due, if there is one."""
        name, self.due = self.due, None  # a checkpoint that is saved does not owe itself
        if name is not None:
            self.save(run, name, undo, asynchronous=asynchronous)

    def save(self, run: Run, name: str, undo: Callable[[], None] = lambda: None, *, asynchronous: bool = False) -> None:
        """Save a checkpoint, and remove the oldest file if there are too many.

        If the file cannot be written, `undo` is called; for an asynchronous save that may be later, and so is the
        removal, since it needs the new file.
        """
        before = self.names
        self.names = [*(one for one in before if one != name), name]
        self.saving = path = self.path(name) if self.folder is None else own_path(self.folder, name)

        def saved() -> None:
            run.logger.info("saved %s", self.path(name))
            self.prune(run, name)

        def failed() -> None:
            self.names = before
            undo()

        try:
            if run.rank == 0 and path.exists() and saved_by(path) not in (None, "", run.identity):
                path.rename(unused_path(path))  # that of another run, which would be replaced

            run.save_checkpoint(path, asynchronous=asynchronous)
        except BaseException:
            failed()
            raise
        finally:
            self.saving = None
        if asynchronous:
            run.writes.then(saved, failed)
        else:
            saved()

    def prune(self, run: Run, newest: str | None = None) -> None:
        """Remove the oldest files. One that cannot be removed stays on the list, to be tried again.

        `newest` is the newest file that has been written, if others are being written: those do not count yet.
        """
        end = len(self.names) if newest is None else self.names.index(newest) + 1
        for name in self.names[: max(end - self._most, 0)] if self._most is not None else ():
            path = self.path(name)
            if run.rank == 0 and saved_by(path) in ("", run.identity):  # and no other file is in its place
                try:
                    path.unlink(missing_ok=True)
                except OSError as error:
                    run.logger.warning("the old checkpoint %s could not be removed: %s", path, error.strerror)
                    continue
            self.names.remove(name)


def check_names(names: Iterable[object], who: str) -> None:
    """Refuse files outside the folder in the state of a hook, which will remove these files some day."""
    for name in names:
        path = PurePath(name) if isinstance(name, str) else PurePath()
        if not path.name or path.is_absolute() or ".." in path.parts:
            raise TrainingError(
                f"the state of the {who} has the file {brief(name)}, which is outside its folder; no run saves such a "
                "state, so load another checkpoint"
            )
