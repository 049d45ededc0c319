"""Code of other people, woven while it does its real work, and found as it was when the hooks are gone."""

from __future__ import annotations
