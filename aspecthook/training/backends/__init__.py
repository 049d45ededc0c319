"""What a runner needs of a numerical library, PyTorch or NumPy.

`_backend` has the class `Backend`, which is NumPy's, and `_torch` what PyTorch does otherwise; `_state` has trees of
values and the check of arrays. The other modules are the library behind `aspecthook.training.numpy`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._backend import Backend


def backend_of(model: object = None) -> Backend:
    """Return the back end of a model: PyTorch's if it is a module, or has some in its attributes, as a GAN does.

    Without a model, return the one that knows all generators of random numbers of the process: PyTorch's if that is
    imported. Neither NumPy nor PyTorch is imported before it is needed, and PyTorch never for a model of another
    library.
    """
    from ._backend import Backend

    backend = Backend()
    torch = sys.modules.get("torch")  # it was imported to make a PyTorch module
    first = next(iter(backend.parts(model).values()), None)
    if torch is not None and (model is None or isinstance(first, torch.nn.Module)):
        from ._torch import TorchBackend

        return TorchBackend()
    return backend
