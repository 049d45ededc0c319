"""The error that a ready-made aspect raises in the place of a call."""

from __future__ import annotations

from aspecthook._errors import AspecthookError


class LimitError(AspecthookError, RuntimeError):
    """A call that `limited` has refused. Its ``retry_after`` is in how many seconds there is room; None: unknown.

    Example:
        >>> from aspecthook import weave
        >>> from aspecthook.aspects import LimitError, limited
        >>> def search(word):
        ...     return [word]
        >>> with weave(search, aspect=limited(1, per=60, wait=False)):
        ...     found = search("tea")
        ...     try:
        ...         search("mate")
        ...     except LimitError as error:
        ...         print(error.retry_after > 50)
        True
    """

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


LimitError.__module__ = "aspecthook.aspects"  # what users import
