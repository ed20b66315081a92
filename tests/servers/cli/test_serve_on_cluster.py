"""`graphrt serve --on` where it cannot work. With Ray: tests/ray."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

import pytest

from servers.replicas.cluster import RayMissingError, import_ray
from tests.servers.cli.process import graphrt
from tests.support.checkout import ROOT

CONFIG = ROOT / "examples/config.json"


@pytest.mark.skipif(importlib.util.find_spec("ray") is not None, reason="Ray is installed")
def test_without_ray_the_extra_is_named() -> None:
    done = graphrt("serve", CONFIG, "--on", "ray", "--rest_port", "auto")
    assert done.returncode == 1
    assert "error: --on ray: Ray Serve cannot be imported" in done.stderr
    assert "hint: pip install 'graphrt[ray]'" in done.stderr


def test_another_version_of_ray_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    other = ModuleType("ray")
    other.__version__ = "2.49.0"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ray", other)
    monkeypatch.setitem(sys.modules, "ray.serve", ModuleType("ray.serve"))
    with pytest.raises(RayMissingError, match=r"Ray 2\.49\.0 is installed, .* 2\.60 only"):
        import_ray()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--on", "kubernetes"), "'kubernetes' is not known. Known here: ray"),
        (("--on", "ray", "--batch_dir", "store"), "--batch_dir is for one machine"),
    ],
)
def test_what_cannot_be_meant_is_refused(words: tuple[str, ...], text: str) -> None:
    done = graphrt("serve", CONFIG, *words)
    assert done.returncode == 2
    assert text in done.stderr
