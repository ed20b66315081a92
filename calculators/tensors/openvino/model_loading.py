"""Loading of a `Model`: read the file, apply the settings, compile."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from calculators.kit.child_process.library_errors import library_reason
from calculators.kit.model_cache import PROPERTY, CacheEntry, ModelCache, finish, hold_compiled
from calculators.kit.model_initializer import check_model_files
from calculators.tensors.openvino.model import Model
from calculators.tensors.openvino.model_settings import (
    ANY_INPUT,
    TOKENIZERS,
    Conversion,
    Dimension,
    ModelSettings,
)
from calculators.tensors.openvino.strings import split_strings
from graph_runtime import Code, GraphError, LoadProgress
from graph_runtime.errors import did_you_mean
from graphrt_base.regular_file import MODEL_FILE_BYTES, read_regular_file


def apply_settings(network: Any, settings: ModelSettings) -> Any:
    """Apply the settings to an `openvino.Model`; returns a new one, or the same one changed.

    Raises:
        GraphError: a setting names a tensor that the model does not have, or does not fit.
    """
    inputs, outputs = [each.get_names() for each in network.inputs], network.outputs
    _check_names("shape", settings.shapes, inputs)
    output_names = [each.get_names() for each in outputs]
    _check_names("layout", settings.layouts, [*inputs, *output_names])
    _check_single("shape", settings.shapes.get(ANY_INPUT) is not None, inputs)
    _check_single("layout", ANY_INPUT in settings.layouts, inputs)
    network = _converted(network, settings)
    if settings.shapes or settings.batch_size is not None:
        _reshape(network, settings)
    return network


def _check_names(setting: str, keys: Any, tensors: Sequence[set[str]]) -> None:
    known = sorted(set().union(*tensors))
    for key in keys:
        if key != ANY_INPUT and key not in known:
            raise _error(
                f'{setting}: the model has no tensor "{key}"; it has {", ".join(known)}.'
                f"{did_you_mean(key, known)}"
            )


def _check_single(setting: str, is_set: bool, inputs: Sequence[set[str]]) -> None:
    if is_set and len(inputs) != 1:
        names = ", ".join(min(each, default="?") for each in inputs)
        raise _error(
            f"{setting}: the model has {len(inputs)} inputs, so it needs one for each, by name: "
            f"{names}"
        )


def _converted(network: Any, settings: ModelSettings) -> Any:
    """Add steps before and after the model for layouts, element types, colours, mean and scale."""
    steps = (settings.precision, settings.color_format, settings.mean, settings.scale)
    is_changed = any(step is not None for step in steps)
    if not settings.layouts and not is_changed:
        return network
    names = [port.get_names() for port in network.inputs]
    _check_single("precision, color_format, mean and scale", is_changed, names)
    from openvino import Type  # here: processes without such a model do not load it
    from openvino.preprocess import ColorFormat, PrePostProcessor

    made = PrePostProcessor(network)
    try:
        _set_layouts(network.inputs, made.input, settings, settings.layouts.get(ANY_INPUT))
        _set_layouts(network.outputs, made.output, settings, None)
        if settings.color_format is not None:
            sent, taken = (getattr(ColorFormat, name) for name in settings.color_format)
            made.input().tensor().set_color_format(sent)
            made.input().preprocess().convert_color(taken)
        if settings.precision is not None:
            sent, taken = (getattr(Type, name) for name in settings.precision)
            made.input().tensor().set_element_type(sent)
            made.input().preprocess().convert_element_type(taken)
        if settings.mean is not None:
            made.input().preprocess().mean(_numbers(settings.mean))
        if settings.scale is not None:
            made.input().preprocess().scale(_numbers(settings.scale))
        return made.build()
    except RuntimeError as error:
        raise _error(
            f"layout, precision, color_format, mean or scale: {library_reason(error)}"
        ) from error


def _set_layouts(
    ports: Sequence[Any], end: Any, settings: ModelSettings, default: Conversion | None
) -> None:
    from openvino import Layout

    for place, port in enumerate(ports):
        name = next((name for name in port.get_names() if name in settings.layouts), None)
        layout = default if name is None else settings.layouts[name]
        if layout is not None:
            end(place).tensor().set_layout(Layout(layout[0]))
            end(place).model().set_layout(Layout(layout[1]))


def _numbers(value: tuple[float, ...] | float) -> list[float] | float:
    return list(value) if isinstance(value, tuple) else value


def _reshape(network: Any, settings: ModelSettings) -> None:
    import openvino

    shapes: dict[Any, Any] = {}
    for place, port in enumerate(network.inputs):
        old = port.get_partial_shape()
        if settings.shapes:
            shapes[place] = _shape_of(port, old, settings)
        elif settings.batch_size is not None:
            shapes[place] = _with_batch(port, old, settings.batch_size)
    try:
        network.reshape(
            {
                place: openvino.PartialShape(shape)
                for place, shape in shapes.items()
                if shape is not None
            }
        )
    except RuntimeError as error:
        what = "shape" if settings.shapes else "batch_size"
        raise _error(f"{what}: the model cannot have it: {library_reason(error)}") from error


def _shape_of(port: Any, old: Any, settings: ModelSettings) -> list[Any] | None:
    """Return the new shape of an input; None to keep the old one."""
    import openvino

    key = next((name for name in port.get_names() if name in settings.shapes), ANY_INPUT)
    if key not in settings.shapes:
        return None
    new = settings.shapes[key]
    if new is not None:
        return [_dimension(each) for each in new]
    return None if old.rank.is_dynamic else [openvino.Dimension(-1) for _ in old]


def _with_batch(port: Any, old: Any, batch: Dimension) -> list[Any] | None:
    if old.rank.is_dynamic or not len(old):
        return None
    layout = port.get_node().layout
    if layout.empty:
        axis = 0
    elif layout.has_name("N"):
        axis = layout.get_index_by_name("N")
    else:
        return None
    return [_dimension(batch) if place == axis else each for place, each in enumerate(old)]


def _dimension(dimension: Dimension) -> Any:
    import openvino

    if dimension.low == dimension.high:
        return openvino.Dimension(dimension.low)
    return openvino.Dimension(dimension.low, -1 if dimension.high is None else dimension.high)


def _error(text: str) -> GraphError:
    return GraphError(text, code=Code.FAILED_PRECONDITION)


#: OpenVINO Model Server's file of other names for tensors, beside the model's file.
_MAPPING_FILE: Final = "mapping_config.json"


def load_model(
    file: Path,
    name: str,
    version: int = 1,
    settings: ModelSettings | None = None,
    progress: LoadProgress | None = None,
) -> Model:
    """Compile the model in a file, or in TensorFlow's folder. Takes long: call it in a thread.

    ``progress`` gets the phases of loading.

    Raises:
        GraphError: OpenVINO cannot load it or a setting does not fit it (FAILED_PRECONDITION), or
            its tensors cannot be NumPy arrays (UNIMPLEMENTED). The text omits the model's name.
    """
    settings = settings or ModelSettings()
    progress = progress or LoadProgress()
    entry = _cache_entry(file, settings)
    try:
        progress.begin("reading the model", 0.0)
        check_model_files((file, file.with_suffix(".bin")))
        core = _core(settings.extension)
        network = core.read_model(file)
        _rename(network, file if file.is_dir() else file.parent)
        network = apply_settings(network, settings)
        config = dict(settings.plugin_config)
        if entry is not None:
            config[PROPERTY] = str(entry.path)
        progress.begin("compiling the model", 0.2)
        rt_info = _rt_info(network)
        network, strings = split_strings(network)
        compiled = core.compile_model(network, settings.target_device, config)
        finish(entry)
        return Model.of(compiled, name, version, settings.nireq, rt_info, strings)
    except GraphError:
        raise
    except Exception as error:
        raise GraphError(
            f"OpenVINO on {settings.target_device}: {library_reason(error)}",
            code=Code.FAILED_PRECONDITION,
        ) from error
    finally:
        if entry is not None:
            entry.close()


def _cache_entry(file: Path, settings: ModelSettings) -> CacheEntry | None:
    """Return the entry of the compiled model; None without a cache, or if it cannot be used."""
    if not settings.cache_dir:
        return None
    cache = ModelCache(Path(settings.cache_dir), settings.cache_bytes)
    if file.is_dir():
        files = sorted(each for each in file.rglob("*") if each.is_file())
    else:
        files = [each for each in (file, file.with_suffix(".bin")) if each.is_file()]
    changes = replace(settings, plugin_config={}, nireq=0, cache_dir="", cache_bytes=0)
    return hold_compiled(cache, files, settings.target_device, settings.plugin_config, changes)


@cache
def _core(extension: str = "") -> Any:
    """Return the process's `openvino.Core`, which holds the devices.

    There is one with each library of operations, ``extension``: a path, or `TOKENIZERS`.

    Raises:
        RuntimeError: the library cannot be loaded.
    """
    import openvino  # here: processes without such a model do not load it

    core = openvino.Core()
    if extension == TOKENIZERS:
        import openvino_tokenizers

        extension = str(openvino_tokenizers._ext_path)
    if extension:
        core.add_extension(extension)
    return core


def _rename(network: Any, folder: Path) -> None:
    """Give tensors the names of a mapping file, if there is one.

    Raises:
        GraphError: the file is not in OpenVINO Model Server's form.
    """
    file = folder / _MAPPING_FILE
    if not file.is_file():
        return
    try:
        mapping = json.loads(read_regular_file(file, MODEL_FILE_BYTES))
        renames = [(dict(mapping.get(key, {}))) for key in ("inputs", "outputs")]
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise GraphError(
            f'{_MAPPING_FILE} needs {{"inputs": {{"NAME": "NEW"}}, "outputs": {{"NAME": "NEW"}}}}',
            code=Code.FAILED_PRECONDITION,
        ) from None
    for ports, names in zip((network.inputs, network.outputs), renames, strict=True):
        for port in ports:
            new = next((names[old] for old in port.get_names() if old in names), None)
            if new is not None:
                port.get_tensor().set_names({str(new)})


def _rt_info(network: Any) -> dict[str, object]:
    """The file's metadata of the model itself, without the paths and versions of its making."""
    info = network.get_rt_info()
    return {"model_info": _json_of(info["model_info"])} if "model_info" in info else {}


def _json_of(value: Any) -> object:
    value = getattr(value, "value", value)
    if isinstance(value, Mapping):
        return {str(key): _json_of(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json_of(each) for each in value]
    return value if isinstance(value, (str, bool, int, float)) else str(value)
