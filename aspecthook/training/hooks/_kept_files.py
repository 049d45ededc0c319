"""The checkpoint files that a hook keeps in a folder: the newest few.

A file is removed only after the one that replaces it has been written, and only if this run has saved it. A
checkpoint, which has the state of the hook, lists itself among the files that are kept, so a resumed run keeps,
replaces and removes the same files as a run that was never interrupted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path, PurePath
from typing import Any, final

from aspecthook._errors import brief
from aspecthook.training._errors import TrainingError
from aspecthook.training.checkpoint._files import own_path, unused_path
from aspecthook.training.checkpoint._folder import saved_by
from aspecthook.training.loop._runner import Runner


@final
class KeptFiles:
    """The names of the files that are kept, the oldest first; all of them, or the newest `most`.

    Attributes:
        mark: A number that the hook keeps with the newest file: the score of the best checkpoint, the iteration of the
            last one. If that file cannot be written, it is the number of the file before.
        due: The name and the mark of a file that is to be saved when the stage is over, after all its hooks. Another
            hook may save before this one in the same moment, and a run may be resumed from its file; so the state has
            what is due, and the resumed run saves it.
    """

    __slots__ = ("_asynchronous", "_most", "due", "folder", "mark", "names", "saving")

    def __init__(
        self, folder: Path | None, most: int | None, *, asynchronous: bool = False, mark: float | None = None
    ) -> None:
        self.folder: Path = Path() if folder is None else folder
        self._most = most
        self._asynchronous = asynchronous
        self.names: list[str] = []
        self.mark: float | None = mark
        self.due: tuple[str, float | None] | None = None
        self.saving: Path | None = None

    def open(self, run: Runner, folder: Path) -> None:
        """Set the folder, remove the files that a killed run had no time to remove, and save the one that it owes."""
        self.folder = folder
        self.prune(run)
        self.save_due(run)

    def path(self, name: str) -> Path:
        """Return the path of a file."""
        return self.folder / name

    def plan(self, run: Runner, name: str, mark: float) -> None:
        """Save a checkpoint when the stage is over."""
        self.due = name, mark
        run.after_stage(lambda: self.save_due(run))

    def save_due(self, run: Runner) -> None:
        """Save the file that is due, if there is one."""
        due, self.due = self.due, None  # a checkpoint that is saved does not owe itself
        if due is not None:
            self.save(run, *due)

    def save(self, run: Runner, name: str, mark: float | None = None) -> None:
        """Save a checkpoint, and remove the oldest file if there are too many, once this one has been written."""
        run.finish_saving()  # if the file before has failed, what was noted of it is taken back first
        before = self.names, self.mark
        self.names, self.mark = [*(one for one in self.names if one != name), name], mark
        self.saving = path = own_path(self.folder, name)

        def saved() -> None:
            run.logger.info("saved %s", path)
            self.prune(run)

        def failed() -> None:
            self.names, self.mark = before

        try:
            if run.rank == 0 and path.exists() and saved_by(path) not in (None, "", run.identity):
                path.rename(unused_path(path))  # that of another run, which would be replaced
            run.save_checkpoint(path, asynchronous=self._asynchronous)
        except BaseException:
            failed()
            raise
        finally:
            self.saving = None
        run.writes.then(saved, failed)

    def prune(self, run: Runner) -> None:
        """Remove the oldest files. One that cannot be removed stays on the list, to be tried again."""
        for name in self.names[: -self._most] if self._most is not None else ():
            path = self.path(name)
            if run.rank == 0 and saved_by(path) in ("", run.identity):  # and no other file is in its place
                try:
                    path.unlink(missing_ok=True)
                except OSError as error:
                    run.logger.warning("the old checkpoint %s could not be removed: %s", path, error.strerror)
                    continue
            self.names.remove(name)

    def state_dict(self) -> dict[str, Any]:
        """Return the names of the files, the one that is due, and its mark or else that of the newest."""
        due, mark = self.due or (None, self.mark)
        return {"files": list(self.names), "due": due, "mark": mark}

    def load_state_dict(self, who: str, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        names, due = list(state["files"]), state["due"]
        check_names(names if due is None else [*names, due], who)
        self.names, self.mark = names, state["mark"]
        self.due = None if due is None else (due, self.mark)


def check_names(names: Iterable[object], who: str) -> None:
    """Refuse files outside the folder in the state of a hook, which will remove these files some day."""
    for name in names:
        path = PurePath(name) if isinstance(name, str) else PurePath()
        if not path.name or path.is_absolute() or ".." in path.parts:
            raise TrainingError(
                f"the state of the {who} has the file {brief(name)}, which is outside its folder; no run saves such a "
                "state, so load another checkpoint"
            )
