"""`export`: a directory of safetensors becomes a directory in OpenVINO's form.

Exports are kept in the directory of models; nothing is written to the user's. Each directory has
one export for each form of weights; it is made again when the files or the exporter have changed.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import sys
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TextIO

from servers.model_store.directory import ModelOrigin, ModelStore, read_origin
from servers.model_store.followed_process import ProcessStopped, run_followed
from servers.model_store.model_reference import ModelError
from servers.options.model_options import COMMON_FORMATS, needs_network

INSTALL: Final = "pip install 'graphrt[export]'"
_PROGRAM: Final = "optimum-cli"
#: Distributions whose versions decide about the content of an export.
_DISTRIBUTIONS: Final = ("optimum_intel", "openvino", "nncf", "transformers")


@dataclass(frozen=True, slots=True)
class Exporter:
    """An installed exporter.

    Attributes:
        program: the path of ``optimum-cli``.
        versions: ``optimum_intel 1.27.0, openvino 2026.4.0, ...``; "" if unknown.
    """

    program: Path
    versions: str = ""

    @property
    def name(self) -> str:
        """The exporter in words, for messages."""
        return self.versions.partition(",")[0].replace("_", "-") or _PROGRAM


def find_exporter() -> Exporter | None:
    """Return the exporter on the path, else the one beside this interpreter; None: there is none.

    It may be in an environment of its own, as long as its program is on the path.
    """
    found = shutil.which(_PROGRAM) or shutil.which(_PROGRAM, path=str(Path(sys.executable).parent))
    if found is None:
        return None
    program = Path(found)
    return Exporter(program, _versions_beside(program.resolve()))


def missing_exporter(model: str) -> ModelError:
    """Return the error for a model that needs an exporter where there is none."""
    return ModelError(
        f"{model} holds safetensors, which must be exported to OpenVINO first", hint=INSTALL
    )


def _versions_beside(program: Path) -> str:
    """Return the versions in the environment of a program, from the names of its metadata."""
    versions: list[str] = []
    places = sorted(program.parent.parent.glob("lib/python3*/site-packages"))
    for name in _DISTRIBUTIONS:
        for place in places:
            for metadata in sorted(place.glob(f"{name}-*.dist-info")):
                found = re.fullmatch(rf"{name}-([^-]+)\.dist-info", metadata.name)
                if found is not None:
                    versions.append(f"{name} {found[1]}")
    return ", ".join(versions)


#: Seconds between two drawings on a terminal, and between two lines elsewhere.
_DRAW_PERIOD: Final = 0.2
_LINE_PERIOD: Final = 10.0
#: Lines that an error shows, and the bytes of one of them.
_LAST_LINES: Final = 8
_MAX_LINE: Final = 400

_LINE_ENDS: Final = re.compile(rb"[\r\n]+")
#: Colours and cursor movements, and other characters that a terminal would obey.
_CONTROL: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_TRACEBACK: Final = "Traceback (most recent call last):"


class ExportOutput:
    """The output of an exporter: written to a log, its last line shown, its last lines kept."""

    def __init__(self, title: str, log: Path, stream: TextIO | None = None) -> None:
        """``log``: a file for the whole output, created here."""
        self._title = title
        self._stream = sys.stderr if stream is None else stream
        self._is_terminal = self._stream.isatty()
        self._log = log.open("wb")
        self._rest = b""
        self._last = ""
        self._kept: deque[str] = deque(maxlen=_LAST_LINES)
        self._is_in_traceback = False
        self._error: str | None = None
        self._began = time.monotonic()
        self._drawn = 0.0

    @property
    def last_lines(self) -> tuple[str, ...]:
        """The error's first line and the last lines, without stacks and bars of progress."""
        is_shown = self._error is None or self._error in self._kept
        return tuple(self._kept) if is_shown else (str(self._error), *self._kept)

    def receive(self, data: bytes) -> None:
        """Take output as it arrives, in any pieces."""
        self._log.write(data)
        self._log.flush()
        *lines, self._rest = _LINE_ENDS.split(self._rest + data)
        for line in lines:
            self._take(line)
        self._rest = self._rest[-_MAX_LINE:]
        self.draw()

    def draw(self) -> None:
        """Show the state if enough time has passed."""
        now = time.monotonic()
        if now - self._drawn < (_DRAW_PERIOD if self._is_terminal else _LINE_PERIOD):
            return
        self._drawn = now
        minutes, seconds = divmod(int(now - self._began), 60)
        text = f"{self._title}: {minutes}:{seconds:02}"
        if self._last:
            text += f", {self._last}"
        if self._is_terminal:
            width = shutil.get_terminal_size().columns - 1
            print(f"\r{text[:width]}\x1b[K", end="", file=self._stream, flush=True)
        else:
            print(text, file=self._stream, flush=True)

    def close(self) -> None:
        """Take the rest, end the line on a terminal, and close the log."""
        self._take(self._rest)
        self._rest = b""
        self._log.close()
        if self._is_terminal:
            print("\r\x1b[K", end="", file=self._stream, flush=True)

    def _take(self, line: bytes) -> None:
        text = _CONTROL.sub("", line.decode("utf-8", "replace")).rstrip()
        if not text:
            return
        self._last = text.strip()[:_MAX_LINE]
        if text.startswith(_TRACEBACK):
            self._is_in_traceback = True
        elif not (self._is_in_traceback and text[0].isspace()):
            if self._is_in_traceback:
                # The first line without an indent is the error itself.
                self._is_in_traceback = False
                self._error = text[:_MAX_LINE]
            if "%|" not in text:
                self._kept.append(text[:_MAX_LINE])


DEFAULT_FORMAT: Final = "int8"
#: For weights of four bits, when no parameter is given; the exporter's own for unknown models.
_INT4_PARAMETERS: Final = ("--ratio", "1.0", "--group-size", "128")
#: For an NPU, which computes with symmetric weights of four bits, scaled by channel.
_NPU_PARAMETERS: Final = ("--sym", "--ratio", "1.0", "--group-size", "-1")

SAFETENSORS: Final = ".safetensors"
#: Small files that a model keeps although the exporter does not write them again.
_KEPT: Final = re.compile(
    r".*\.(json|txt|jinja|md)\Z|(?:.*/)?(LICENSE|NOTICE|USE_POLICY)[^/]*\Z", re.IGNORECASE
)
_INDEX: Final = ".index.json"
#: The file of a pipeline of diffusers that names its parts.
_PIPELINE: Final = "model_index.json"
_LOG: Final = "export.log"
#: The forms of weights in the exporter's help.
_FORMATS: Final = re.compile(r"--weight-format\s+\{([\w,]+)\}")


@dataclass(frozen=True, slots=True)
class WeightForm:
    """The form of the weights of an export.

    Attributes:
        weight_format: ``--weight-format`` of the exporter.
        parameters: further parameters of quantization, in the exporter's words.
        is_asked: the user has named the form; otherwise it is a default.
    """

    weight_format: str
    parameters: tuple[str, ...] = ()
    is_asked: bool = False

    def __str__(self) -> str:
        return " ".join((self.weight_format, *self.parameters))


def weight_form(
    weight_format: str | None, parameters: tuple[str, ...], *, device: str = ""
) -> WeightForm:
    """Return the form of weights for options, of which each may be left out.

    Args:
        device: the device that will compute, as in ``--target_device``.
    """
    is_asked = weight_format is not None or bool(parameters)
    is_npu = device.startswith("NPU")
    chosen = weight_format or ("int4" if is_npu or parameters else DEFAULT_FORMAT)
    if is_npu and chosen == "int4" and not parameters:
        parameters = _NPU_PARAMETERS
    return WeightForm(chosen, parameters, is_asked)


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """An export to make.

    Attributes:
        name: the model, for messages.
        source: the directory of safetensors; it is only read.
        arguments: the exporter's arguments for the model's task.
        form: the form of the exported weights.
    """

    name: str
    source: Path
    arguments: tuple[str, ...]
    form: WeightForm


def export(request: ExportRequest, exporter: Exporter, place: Path) -> Path:
    """Export a model into ``place``, a directory for this work alone, and return the result.

    The result is a directory in ``place``, which the caller moves to where it belongs. The log of
    the exporter is in ``place`` too.

    Raises:
        ModelError: the exporter fails; the error has its last lines.
        OSError: the disk fails.
    """
    target, temporary = place / "exported", place / "temporary"
    for directory in (target, temporary):
        shutil.rmtree(directory, ignore_errors=True)
    temporary.mkdir(parents=True)
    command = [
        *(str(exporter.program), "export", "openvino", "--model", str(request.source)),
        *("--weight-format", request.form.weight_format, *_parameters(request.form)),
        *(*request.arguments, str(target)),
    ]
    output = ExportOutput(f"exporting {request.name} to {request.form}", place / _LOG)
    try:
        status = run_followed(
            command,
            environment=_environment(temporary, request.form),
            on_output=output.receive,
            on_silence=output.draw,
        )
    except BaseException as error:
        shutil.rmtree(target, ignore_errors=True)
        shutil.rmtree(temporary, ignore_errors=True)
        if isinstance(error, ProcessStopped):
            signal.raise_signal(error.number)
        if isinstance(error, OSError):
            raise ModelError(f"{exporter.program} cannot run: {error.strerror}") from error
        raise
    finally:
        output.close()
    shutil.rmtree(temporary, ignore_errors=True)
    if status != 0:
        shutil.rmtree(target, ignore_errors=True)
        raise _failure(request, exporter, status, output.last_lines, place / _LOG)
    if not any(target.glob("*.xml")) and not any(target.glob("*/*.xml")):
        raise ModelError(
            f"{exporter.name} ended without an error, but has written no model of {request.name}",
            hint=f"its output is in {place / _LOG}",
        )
    _keep_small_files(request.source, target)
    return target


def space_for(weights: int, form: WeightForm) -> int:
    """Return an upper bound of the bytes on the disk that an export takes while it is made.

    Args:
        weights: bytes of the safetensors, which have two bytes or more for each number.
    """
    # The exporter writes the model once uncompressed before it compresses it.
    return weights * {"fp32": 2, "fp64": 4}.get(form.weight_format, 1) + weights


def check_format(exporter: Exporter, form: WeightForm) -> None:
    """Check that an exporter writes a form of weights, which only some versions know.

    Raises:
        ModelError: its help names the forms, and this one is not among them.
    """
    if form.weight_format in COMMON_FORMATS:
        return
    said: list[bytes] = []
    try:
        run_followed(
            [str(exporter.program), "export", "openvino", "--help"],
            environment=os.environ,
            on_output=said.append,
            on_silence=lambda: None,
        )
    except OSError as error:
        raise ModelError(f"{exporter.program} cannot run: {error.strerror}") from error
    found = _FORMATS.search(b"".join(said).decode(errors="replace"))
    known = [] if found is None else found[1].split(",")
    if known and form.weight_format not in known:
        raise ModelError(
            f"{exporter.name} does not write weights in {form.weight_format}",
            hint=f"it writes {', '.join(known)}",
        )


def weights_in(directory: Path) -> int:
    """Return the bytes of the safetensors in a directory; 0: it holds none."""
    return sum(file.stat().st_size for file in model_files(directory) if file.suffix == SAFETENSORS)


def _parameters(form: WeightForm) -> tuple[str, ...]:
    """Return the parameters of quantization for the exporter.

    Without any, it would use settings of its own for models that it knows by name, many of which
    need samples that it downloads. And it refuses layers whose size is not a multiple of the group
    size, as of SmolLM2-135M (576 and 128), unless the group size may be adjusted.
    """
    if form.weight_format != "int4":
        return form.parameters
    parameters = form.parameters or _INT4_PARAMETERS
    if "--group-size-fallback" in parameters or "-1" in parameters:
        return parameters
    return (*parameters, "--group-size-fallback", "adjust")


def _environment(temporary: Path, form: WeightForm) -> Mapping[str, str]:
    environment = {
        **os.environ,
        # Large intermediate files belong on the disk that was checked, not in a small /tmp.
        "TMPDIR": str(temporary),
        "PYTHONUNBUFFERED": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
    }
    if not needs_network(form.parameters):
        environment["HF_HUB_OFFLINE"] = "1"
    return environment


def _failure(
    request: ExportRequest, exporter: Exporter, status: int, lines: tuple[str, ...], log: Path
) -> ModelError:
    if status == -9:
        reason = "was killed, as Linux does when memory runs out"
    elif status < 0:
        reason = f"was ended by signal {-status}"
    else:
        reason = "failed"
    text = "".join(f"\n  {line}" for line in lines)
    hint = f"its whole output is in {log}"
    if any("trust_remote_code" in line or "trust-remote-code" in line for line in lines):
        hint = (
            "the model brings code of its own, which graphrt does not run; if you trust it, export "
            f"it with optimum-cli --trust-remote-code, and serve that directory; {hint}"
        )
    return ModelError(
        f"{exporter.name} {reason} while exporting {request.name}{':' if text else ''}{text}",
        hint=hint,
    )


def _keep_small_files(source: Path, target: Path) -> None:
    """Copy the small files beside the weights that the exporter has not written itself."""
    for path in model_files(source):
        name = path.relative_to(source).as_posix()
        copy = target / name
        if _KEPT.match(name) and not name.endswith(_INDEX) and not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)


def model_files(directory: Path) -> tuple[Path, ...]:
    """Return the files of a model of safetensors and of its modules in order.

    Folders of modules are named ``1_Pooling``, and a pipeline of diffusers has a folder for each of
    its parts; other folders hold other forms of the weights.
    """
    folders = "*/*" if (directory / _PIPELINE).is_file() else "[0-9]_*/*"
    found = (*directory.glob("*"), *directory.glob(folders))
    return tuple(sorted(path for path in found if path.is_file()))


#: The directory of exports in the directory of models. No owner on a hub has such a name.
_EXPORTS: Final = "_exported"
#: Changes when graphrt calls the exporter in another way, so that exports are made again.
_RECIPE: Final = "1"
#: Larger files are identified by their size and time of change: reading them would take long.
_LARGEST_READ: Final = 64 << 20


def exported(request: ExportRequest, store: ModelStore, *, overwrites: bool = False) -> Path:
    """Return the directory of the export of a directory; make it unless it is there.

    Raises:
        ModelError: there is no exporter, or it fails.
        ModelError: another process is exporting the same, or the disk is full.
        OSError: the disk fails.
    """
    place = store.directory / _EXPORTS / _name(request)
    exporter = find_exporter()
    content = _content(request)
    here = read_origin(place)
    # Where exports are only served, there may be no exporter.
    if (
        here is not None
        and here.commit == content
        and (exporter is None or here.exporter == exporter.versions)
        and not overwrites
    ):
        return place
    if exporter is None:
        raise missing_exporter(request.name)
    busy = f"another process is exporting {request.name} to {request.form}"
    store.directory.mkdir(parents=True, exist_ok=True)
    with store.workspace(f"{_EXPORTS}--{place.name}", busy) as workspace:
        store.check_space(space_for(weights_in(request.source), request.form))
        result = export(request, exporter, workspace)
        if _content(request) != content:
            raise ModelError(
                f"files in {request.source} have changed while they were exported",
                hint="start again when the model is complete",
            )
        origin = ModelOrigin(
            repository=str(request.source),
            revision=None,
            commit=content,
            file=None,
            form="safetensors",
            weights=str(request.form),
            exporter=exporter.versions,
        )
        store.publish(place, result, origin)
        shutil.rmtree(workspace, ignore_errors=True)
    return place


def _name(request: ExportRequest) -> str:
    """Return the name of an export: readable, and different for each directory and form."""
    words = (str(request.source), str(request.form), *request.arguments)
    key = hashlib.sha256("\0".join(words).encode("utf-8", "surrogateescape")).hexdigest()[:8]
    readable = re.sub(r"[^\w.-]+", "-", request.source.name, flags=re.ASCII).strip("-.")
    return f"{readable or 'model'}-{request.form.weight_format}-{key}"


def _content(request: ExportRequest) -> str:
    """Return a digest of the files of a model."""
    digest = hashlib.sha256(_RECIPE.encode())
    for path in model_files(request.source):
        status = path.stat()
        name = path.relative_to(request.source).as_posix()
        digest.update(f"\0{name}\0{status.st_size}\0".encode("utf-8", "surrogateescape"))
        if path.suffix == SAFETENSORS or status.st_size > _LARGEST_READ:
            digest.update(str(status.st_mtime_ns).encode())
        else:
            digest.update(path.read_bytes())
    return digest.hexdigest()
