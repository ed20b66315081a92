"""``graphrt doctor``: facts for bug reports about the machine, the software and a config.

Nothing here reads a request, a key or the value of a variable that may hold one.
"""

from __future__ import annotations

import asyncio
import os
import platform
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec

from calculators.kit.child_process.child_process import ChildProcess
from calculators.kit.child_process.framing import Frame
from calculators.kit.installed_points import is_installed
from calculators.kit.machine import ControlGroups, affinity_processors
from calculators.tensors.openvino.device_report import Devices
from servers.operations.process import CLASH_HINT, clash_text, clashes

#: A value that JSON can express.
Fact: TypeAlias = str | int | float | bool | list[str] | None


@dataclass(frozen=True, slots=True)
class DoctorNote:
    """An error or a warning. ``hint``: a remedy; "" if none is known."""

    severity: Literal["error", "warning"]
    message: str
    hint: str = ""


@dataclass(slots=True)
class Section:
    """Facts by name, in display order."""

    title: str
    facts: dict[str, Fact] = field(default_factory=dict)
    remarks: list[DoctorNote] = field(default_factory=list)

    def error(self, message: str, hint: str = "") -> None:
        self.remarks.append(DoctorNote("error", message, hint))

    def warn(self, message: str, hint: str = "") -> None:
        self.remarks.append(DoctorNote("warning", message, hint))


__all__ = ["Report", "make_report"]


#: Instruction sets for which OpenVINO has kernels.
_FLAGS: Final = (
    *("sse4_2", "avx", "avx2", "fma", "f16c", "avx_vnni", "avx512f", "avx512_vnni"),
    *("avx512_bf16", "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16", "asimd", "sve"),
)
_MIB: Final = 1024 * 1024
#: Each client takes a descriptor, and each graph some.
_FEW_DESCRIPTORS: Final = 4096
#: The demo model and its processes take about half of it.
_LITTLE_MEMORY: Final = 2048


def machine(proc: Path = Path("/proc"), groups: ControlGroups | None = None) -> Section:
    """Describe the machine, and the share of it that this process may use.

    Args:
        proc, groups: values that tests replace.
    """
    section = Section("machine")
    facts = section.facts
    facts["processor"], flags = processor(proc)
    facts["instructions"] = [flag for flag in _FLAGS if flag in flags]
    if flags and platform.machine() == "x86_64" and "avx2" not in flags:
        section.warn("the processor has no AVX2: models run slowly")
    facts["cores"] = os.cpu_count()
    usable = affinity_processors()
    facts["cores of this process"] = usable
    groups = groups if groups is not None else ControlGroups.of_this_process(proc)
    if groups.cores is not None:
        facts["cores by control group"] = groups.cores
        if groups.cores < usable:
            section.warn(
                f"the control group allows {groups.cores:g} cores, and {usable} are seen: too many "
                f"threads compute and wait for each other",
                "give it whole cores (a cpuset), or set INFERENCE_NUM_THREADS in plugin_config",
            )
    _add_memory(section, proc, groups.memory_bytes)
    _add_limits(section)
    return section


def processor(proc: Path = Path("/proc")) -> tuple[str, frozenset[str]]:
    """Return the processor's name and flags."""
    name, flags = platform.machine(), frozenset[str]()
    for key, value in _pairs(proc / "cpuinfo"):
        if key == "model name":
            name = value
        elif key in ("flags", "Features"):
            flags = frozenset(value.split())
            break
    return name, flags


def _add_memory(section: Section, proc: Path, limit: int | None) -> None:
    meminfo = {key: int(value.split()[0]) // 1024 for key, value in _pairs(proc / "meminfo")}
    facts = section.facts
    facts["memory, MiB"] = total = meminfo.get("MemTotal")
    facts["memory available, MiB"] = meminfo.get("MemAvailable")
    facts["swap, MiB"] = meminfo.get("SwapTotal")
    if limit is not None:
        facts["memory by control group, MiB"] = limit // _MIB
        total = min(total or limit // _MIB, limit // _MIB)
    if total is not None and total < _LITTLE_MEMORY:
        section.warn(
            f"{total} MiB of memory: a language model, its processes and its cache hardly fit",
            "give it more, or set cache_size in the node's options",
        )


def _add_limits(section: Section) -> None:
    try:
        import resource
    except ImportError:  # not on Windows
        return
    for name, number in (
        ("descriptors", resource.RLIMIT_NOFILE),
        ("processes", resource.RLIMIT_NPROC),
        ("address space", resource.RLIMIT_AS),
        ("size of a file", resource.RLIMIT_FSIZE),
        ("core files", resource.RLIMIT_CORE),
    ):
        soft, hard = (_shown(value, resource.RLIM_INFINITY) for value in resource.getrlimit(number))
        section.facts[f"limit: {name}"] = soft if soft == hard else f"{soft} (at most {hard})"
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if descriptors != resource.RLIM_INFINITY and descriptors < _FEW_DESCRIPTORS:
        section.warn(
            f"{descriptors} descriptors: about so many clients can be connected at most",
            "ulimit -n 65536, or LimitNOFILE=65536 in the unit of systemd",
        )


def _shown(value: int, unlimited: int) -> str:
    return "unlimited" if value == unlimited else str(value)


def _pairs(path: Path) -> list[tuple[str, str]]:
    """Return name and value of each line ``name : value``."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    parts = (line.partition(":") for line in lines)
    return [(key.strip(), value.strip()) for key, colon, value in parts if colon and value.strip()]


#: Packages without which `graphrt serve` does not start, or serves less.
NEEDED: Final = (
    "aiohttp",
    "filelock",
    "grpcio",
    "huggingface-hub",
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
_OF_DEVELOPERS: Final = frozenset({"all", "clients", "dev", "train"})


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
    if not is_installed("cv2"):
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

_HINT: Final = "a driver or OpenVINO itself is broken: try without the device, or install it again"


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
        # Shielded, because a time-out cancels what it waits for, and the end is awaited again.
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

    def to_json(self) -> dict[str, object]:
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
