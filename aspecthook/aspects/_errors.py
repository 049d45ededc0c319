"""The errors that ready-made aspects raise in the place of a call."""

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


class CircuitOpenError(AspecthookError, RuntimeError):
    """A call that `circuit` has refused. In ``retry_after`` seconds there is another attempt.

    Example:
        >>> from aspecthook import weave
        >>> from aspecthook.aspects import CircuitOpenError, circuit
        >>> def fetch():
        ...     raise ConnectionError("refused")
        >>> with weave(fetch, aspect=circuit(failures=1)):
        ...     for attempt in 1, 2:
        ...         try:
        ...             fetch()
        ...         except (ConnectionError, CircuitOpenError) as error:
        ...             print(type(error).__name__)
        ConnectionError
        CircuitOpenError
    """

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


for _error in (LimitError, CircuitOpenError):
    _error.__module__ = "aspecthook.aspects"  # what users import
