"""What a hookable function is to a type checker: see the stub beside this file, which nothing reads at run time."""

from __future__ import annotations
