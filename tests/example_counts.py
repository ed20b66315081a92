"""How many random examples hypothesis makes: few where somebody waits, all in CI.

``pytest --examples few`` makes a quarter; tests that say a number of their own ask `examples`.
"""

from __future__ import annotations

from typing import Final

from hypothesis import HealthCheck, settings

#: In percent of what a test says, and of hypothesis' own number.
PROFILES: Final = {"few": 25, "all": 100}
_DEFAULT: Final = 100


def load_profile(name: str) -> None:
    """Choose one of `PROFILES`, before modules of tests are imported."""
    settings.load_profile(name)


def examples(count: int) -> int:
    """So many examples where all are made, and a share of them where few are."""
    chosen = settings.default
    assert chosen is not None
    return max(1, count * chosen.max_examples // _DEFAULT)


for _name, _percent in PROFILES.items():
    # A busy machine makes examples slowly; that is no finding.
    settings.register_profile(
        _name,
        deadline=None,
        max_examples=_DEFAULT * _percent // 100,
        suppress_health_check=[HealthCheck.too_slow],
    )
