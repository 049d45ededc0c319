"""Fixtures of the tests of registries."""

from __future__ import annotations

from tests.plugins.conftest import install

__all__ = ["install"]
