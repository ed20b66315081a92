"""`Report`: all sections, as text and as JSON."""

from __future__ import annotations

import asyncio
import os
import platform
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from typing import Any, Final

import msgspec

from calculators.kit.child_process.child_process import ChildProcess
from calculators.kit.child_process.framing import Frame
from calculators.tensors.openvino.device_report import Devices
from servers.operations.doctor.machine import machine
from servers.operations.doctor.section import DoctorNote, Fact, Section
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


MODULE: Final = "calculators.tensors.openvino.device_process"
#: The libraries of a slow disk take long to load.
SECONDS: Final = 60.0

_HINT: Final = "a driver or OpenVINO itself is broken: try without the device, or install it anew"


def devices(module: str = MODULE, seconds: float = SECONDS) -> Section:
    """Start OpenVINO in a process and list its devices. A crash or a time-out is reported.

    Args:
        module, seconds: values that tests replace.
    """
    section = Section("devices")
    found, end = asyncio.run(_ask(module, seconds))
    if found is None:
        section.error(f"OpenVINO could not be asked for its devices: {end}", _HINT)
    elif found.failure:
        section.error(f"OpenVINO does not start: {found.failure}", _HINT)
    else:
        section.facts["OpenVINO"] = found.openvino
        for device in found.devices:
            capabilities = ", ".join(device.capabilities)
            section.facts[device.name] = f"{device.full_name}; {capabilities}"
        if not found.devices:
            section.error("OpenVINO has no device, not even CPU", _HINT)
    return section


async def _ask(module: str, seconds: float) -> tuple[Devices | None, str]:
    """Return the process's message, None if there is none, and how it ended."""
    frames: list[Frame] = []
    ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    child = ChildProcess(frames.append, ended.set_result)
    try:
        await child.start(module)
    except OSError as error:
        return None, f"no process could be started: {error.strerror}"
    try:
        end = await asyncio.wait_for(asyncio.shield(ended), seconds)
    except TimeoutError:
        child.kill(f"it has not answered for {seconds:g} s")
        end = await ended
    try:
        return (msgspec.msgpack.decode(frames[0], type=Devices) if frames else None), end
    except msgspec.MsgspecError as error:
        return None, f"it sent what is no answer: {error}"


_PREFIXES: Final = ("GRAPHRT_", "OVMS_", "OTEL_", "OPENVINO_", "OV_", "GRPC_", "OMP_", "KMP_")
_NAMES: Final = (
    *("API_KEY", "LD_PRELOAD", "LD_LIBRARY_PATH", "MALLOC_ARENA_MAX", "PYTHONPATH"),
    *("PYTHONMALLOC", "PYTHONDONTWRITEBYTECODE", "PYTHONOPTIMIZE", "TMPDIR", "NO_PROXY"),
    *("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "no_proxy"),
)
#: Variables whose values cannot be secret. Only the names of others are shown.
_HARMLESS: Final = frozenset(
    {
        "GRPC_ENABLE_FORK_SUPPORT",
        "GRPC_VERBOSITY",
        "MALLOC_ARENA_MAX",
        "OMP_NUM_THREADS",
        "OTEL_SDK_DISABLED",
        "OTEL_TRACES_SAMPLER",
        "PYTHONMALLOC",
        "PYTHONOPTIMIZE",
    }
)


def environment(variables: Mapping[str, str]) -> Section:
    """List the variables that are set, with the few values that cannot be secret."""
    section = Section("environment")
    for name in sorted(variables):
        if name in _NAMES or name.startswith(_PREFIXES):
            value = variables[name]
            is_shown = name in _HARMLESS or not value
            section.facts[name] = (value or "(empty)") if is_shown else "(set)"
    return section


@dataclass(frozen=True, slots=True)
class Report:
    """The facts for a bug report."""

    sections: Sequence[Section]

    @property
    def remarks(self) -> list[DoctorNote]:
        """All errors and warnings, errors first."""
        found = [remark for section in self.sections for remark in section.remarks]
        return sorted(found, key=lambda remark: remark.severity)

    @property
    def is_well(self) -> bool:
        return all(remark.severity != "error" for remark in self.remarks)

    def to_json(self) -> dict[str, Any]:
        return {
            **{section.title: section.facts for section in self.sections},
            "findings": [
                {"severity": each.severity, "message": each.message}
                | ({"hint": each.hint} if each.hint else {})
                for each in self.remarks
            ],
        }

    def to_text(self) -> str:
        """Return the report as text: a block per section, names of facts in a column."""
        blocks = [_block(section) for section in self.sections if section.facts]
        lines = [f"{each.severity}: {each.message}" + _hint(each) for each in self.remarks]
        blocks.append("\n".join(lines) if lines else "nothing wrong was found")
        return "\n\n".join(blocks)


def make_report(*more: Section) -> Report:
    """Make all sections, with ``more`` at the end. Takes seconds: OpenVINO is started."""
    return Report((software(), machine(), devices(), environment(os.environ), *more))


def _block(section: Section) -> str:
    width = max(map(len, section.facts))
    lines = [f"  {name:{width}}  {_text(fact)}" for name, fact in section.facts.items()]
    return "\n".join([section.title, *lines])


def _text(fact: Fact) -> str:
    if fact is None or fact == []:
        return "-"
    return " ".join(fact) if isinstance(fact, list) else str(fact)


def _hint(remark: DoctorNote) -> str:
    return f"\nhint: {remark.hint}" if remark.hint else ""
