"""Number of random examples of hypothesis: few in local tiers, all in CI.

``pytest --examples few`` makes a quarter; tests with a number of their own pass it to `examples`.
"""

from __future__ import annotations

from typing import Final

from hypothesis import HealthCheck, settings

#: In percent of the number of a test, and of hypothesis's own number.
PROFILES: Final = {"few": 25, "all": 100}
_DEFAULT: Final = 100


def load_profile(name: str) -> None:
    """Load one of `PROFILES`, before test modules are imported."""
    settings.load_profile(name)


def examples(count: int) -> int:
    """Return ``count`` where all examples are made, and a share of it where few are."""
    chosen = settings.default
    assert chosen is not None
    return max(1, count * chosen.max_examples // _DEFAULT)


for _name, _percent in PROFILES.items():
    # A busy machine makes examples slowly, which is not a finding.
    settings.register_profile(
        _name,
        deadline=None,
        max_examples=_DEFAULT * _percent // 100,
        suppress_health_check=[HealthCheck.too_slow],
    )
