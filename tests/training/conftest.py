"""Training needs the packages of the extra `train`."""

from __future__ import annotations

from importlib.util import find_spec

if not all(map(find_spec, ("numpy", "autograd", "safetensors"))):
    collect_ignore_glob = ["*"]
