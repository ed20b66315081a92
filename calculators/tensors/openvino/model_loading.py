"""Loading of a `Model`: read the file, apply the settings, compile."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from calculators.kit.child_process.library_errors import library_reason
from calculators.kit.model_cache import CacheEntry, ModelCache
from calculators.kit.model_cache.compiled_models import PROPERTY, finish, hold_compiled
from calculators.kit.model_identity import check_model_files
from calculators.tensors.openvino.model import Model
from calculators.tensors.openvino.model_changes import apply_settings
from calculators.tensors.openvino.model_settings import ModelSettings
from graph_runtime import Code, GraphError, LoadProgress
from graph_runtime.regular_file import MODEL_FILE_BYTES, read_regular_file

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
        network = _core().read_model(file)
        _rename(network, file if file.is_dir() else file.parent)
        network = apply_settings(network, settings)
        config = dict(settings.plugin_config)
        if entry is not None:
            config[PROPERTY] = str(entry.path)
        progress.begin("compiling the model", 0.2)
        compiled = _core().compile_model(network, settings.target_device, config)
        finish(entry)
        return Model.of(compiled, name, version, settings.nireq, _rt_info(network))
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
def _core() -> Any:
    """The process's only `openvino.Core`, which holds the devices."""
    import openvino  # here: processes without such a model do not load it

    return openvino.Core()


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
