"""A callback that sends the numbers of each epoch to a server."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from math import isfinite
from typing import Any, final

from aspecthook.training._errors import TrainingError
from aspecthook.training._options import flag
from aspecthook.training.hooks._hook import HOOKS
from aspecthook.training.logging._numbers import number_of

from ._bridge import writes
from ._callback import Callback, Logs


@final
@HOOKS.register
class RemoteMonitor(Callback):
    """Send the logs of each epoch to a server by HTTP; a server that cannot be reached causes a warning.

    The body is a JSON object with ``epoch`` and the numbers of the logs, in a form field or by itself. NaN and infinity
    become ``null``. Needs the extra `remote`.

    Args:
        root: The address of the server.
        path: What follows in the address.
        field: The field of the form; not used with `send_as_json`.
        headers: Headers of the request.
        send_as_json: Send the object by itself, as ``application/json``.

    Example:
        >>> RemoteMonitor("http://localhost:9000").url
        'http://localhost:9000/publish/epoch/end/'
    """

    def __init__(
        self,
        root: str = "http://localhost:9000",
        path: str = "/publish/epoch/end/",
        field: str = "data",
        headers: Mapping[str, str] | None = None,
        send_as_json: bool = False,
    ) -> None:
        super().__init__()
        if find_spec("httpx") is None:
            raise TrainingError("RemoteMonitor needs httpx; pip install 'aspecthook[remote]'")
        self.url: str = root + path
        self.field = field
        self.headers: dict[str, str] = dict(headers or {})
        self.send_as_json: bool = flag("RemoteMonitor", "send_as_json", send_as_json)

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Send the logs; on rank 0."""
        if not writes(self):
            return
        numbers = {name: number_of(value) for name, value in (logs or {}).items()}
        text = json.dumps(
            {"epoch": epoch, **{name: value if _is_finite(value) else None for name, value in numbers.items()}}
        )
        as_json = {"content": text, "headers": {"Content-Type": "application/json", **self.headers}}
        request: dict[str, Any] = (
            as_json if self.send_as_json else {"data": {self.field: text}, "headers": self.headers}
        )
        httpx: Any = import_module("httpx")
        try:
            httpx.post(self.url, **request)
        except httpx.HTTPError as error:
            warnings.warn(f"RemoteMonitor: {self.url} cannot be reached: {error}", stacklevel=2)


def _is_finite(value: float | None) -> bool:
    return value is not None and isfinite(value)
