"""Profiles of Hypothesis, by HYPOTHESIS_PROFILE: `dev` unless given, `brief` for another Python, `deep` for a hunt."""

from __future__ import annotations

import os
import signal

from hypothesis import HealthCheck, settings

settings.register_profile("dev", max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("brief", parent=settings.get_profile("dev"), max_examples=40)
settings.register_profile("deep", parent=settings.get_profile("dev"), max_examples=5000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))

# A shell that starts us in the background has Ctrl-C ignored, and so would be the one that tests press.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
