"""What holds for every test."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# A busy machine makes examples slowly; that is no finding.
settings.register_profile("graphrt", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("graphrt")
