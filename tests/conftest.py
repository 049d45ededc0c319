"""Profiles of Hypothesis, by HYPOTHESIS_PROFILE: `dev` unless given, `brief` for another Python, `deep` for a hunt."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

settings.register_profile("dev", max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("brief", parent=settings.get_profile("dev"), max_examples=40)
settings.register_profile("deep", parent=settings.get_profile("dev"), max_examples=5000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))
