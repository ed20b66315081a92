"""Versions of installed software."""

from __future__ import annotations

import platform
import re
import sys
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from typing import Final

from servers.operations.doctor.section import Section
from servers.operations.package_names import CLASH_HINT, clash_text, clashes

#: Packages without which `graphrt serve` does not start, or serves less.
NEEDED: Final = (
    "aiohttp",
    "grpcio",
    "jinja2",
    "msgspec",
    "numpy",
    "openvino",
    "openvino-genai",
    "openvino-tokenizers",
    "orjson",
    "pillow",
    "prometheus-client",
    "protobuf",
    "python-multipart",
    "python-rapidjson",
    "regex",
    "soundfile",
    "soxr",
    "tokenizers",
    "yarl",
)
_EXTRA: Final = re.compile(r"""^([A-Za-z0-9._-]+).*;\s*extra\s*==\s*['"]([^'"]+)['"]""")
#: Extras for people who change graphrt.
_OF_DEVELOPERS: Final = frozenset({"clients", "dev", "train"})


def software() -> Section:
    """List the versions of graphrt, the interpreter and the libraries."""
    section = Section("software")
    facts = section.facts
    facts["graphrt"] = _version("graphrt") or "not installed: run from its sources"
    facts["python"] = f"{platform.python_implementation()} {platform.python_version()}"
    facts["system"] = f"{platform.system()} {platform.release()}, {_distribution()}"
    libc = " ".join(platform.libc_ver()).strip()
    if libc:
        facts["libc"] = libc
    facts["environment"] = "a virtual one" if sys.prefix != sys.base_prefix else "the system's"
    for name in NEEDED:
        facts[name] = found = _version(name)
        if found is None:
            section.error(f"{name} is not installed", f"pip install {name}")
    facts["uvloop"] = _version("uvloop")
    if facts["uvloop"] is None and sys.platform != "win32":
        section.warn("uvloop is not installed: the server is slower", "pip install uvloop")
    _add_extras(section)
    for package, distribution in clashes():
        section.error(clash_text(package, distribution), CLASH_HINT)
    return section


def _add_extras(section: Section) -> None:
    wanted: dict[str, list[str]] = {}
    for requirement in _requirements():
        match = _EXTRA.match(requirement)
        if match is not None and match[2] not in _OF_DEVELOPERS:
            wanted.setdefault(match[2], []).append(match[1])
    for extra, names in wanted.items():
        missing = [name for name in names if _version(name) is None]
        has = ", ".join(f"{name} {_version(name)}" for name in names if name not in missing)
        lacks = f"without {', '.join(missing)}" if missing else ""
        section.facts[f"extra {extra}"] = "; ".join(part for part in (has, lacks) if part)
    clash = [name for name in ("opencv-python", "opencv-contrib-python") if _version(name)]
    if clash and _version("opencv-python-headless"):
        section.warn(
            f"{clash[0]} and opencv-python-headless are both installed, and own the same files",
            f"pip uninstall {clash[0]}",
        )
    if find_spec("cv2") is None:
        section.facts["images"] = "cannot be decoded: there is no OpenCV"


def _requirements() -> list[str]:
    try:
        return requires("graphrt") or []
    except PackageNotFoundError:
        return []


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _distribution() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:
        return platform.machine()
