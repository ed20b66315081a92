"""Graphs and models for `graphrt serve`, from the words of its command line."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from calculators.kit.examples import example_model, example_models
from calculators.kit.seen_files import SeenFiles
from calculators.kit.tasks import find_task, task_of_model
from calculators.tensors.openvino.directory_models import SUFFIXES, versions_in
from servers.cli.messages import CommandFailed, print_warning
from servers.cli.model_graph import graph_of_model, task_options_of
from servers.cli.parser import near
from servers.cli.serve_options import ServeOptions
from servers.cli.stored_models import (
    ExportOfPull,
    check_hub_files,
    export_of_directory,
    form_of,
    is_safetensors,
    model_store_at,
    pull_model,
    read_source,
    reference_of,
    store_directory,
    with_further_models,
)
from servers.config import (
    ConfigError,
    GraphEntry,
    MetricsConfig,
    ModelEntry,
    ServerConfig,
    config_of,
    find_graph,
    model_of,
    read_config,
)
from servers.config.entries import GRAPH_FILE, is_remote
from servers.model_store.directory import ORIGIN_FILE
from servers.model_store.model_reference import GGUF, ModelError, ModelReference

_ALWAYS_JSON: Final = frozenset({"model_version_policy", "plugin_config"})


def is_plain_model(path: Path) -> bool:
    """Return True if the path is a model's file, or a directory with folders of versions."""
    return (
        path.suffix in SUFFIXES and path.is_file() if not path.is_dir() else bool(versions_in(path))
    )


def plain_model(path: Path, options: ServeOptions) -> ModelEntry:
    """Return the entry of the model with the settings from the options.

    Raises:
        CommandFailed: an option has an invalid value.
    """
    path = path.absolute()
    own_name = path.name if path.is_dir() else path.stem
    return _model_at(str(path), own_name, options)


def _model_at(base_path: str, own_name: str, options: ServeOptions) -> ModelEntry:
    """Return the entry of the model at an absolute path or an address; see `plain_model`."""
    config: dict[str, Any] = {"name": options.server.model_name or own_name, "base_path": base_path}
    for name, value in options.of_plain_model.items():
        config[name] = value_of_key(name, value)
    try:
        return model_of(Path.cwd(), config)
    except ConfigError as error:
        raise CommandFailed(f"--{error.findings[0].message}", status=2) from error


def value_of_key(name: str, value: Any) -> Any:
    """Return the value of a key in config.json for the value of the flag with this name.

    Raises:
        CommandFailed: it is not JSON.
    """
    is_json = isinstance(value, str) and (name in _ALWAYS_JSON or value.lstrip().startswith("{"))
    if not is_json:
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise CommandFailed(f"--{name} is not JSON: {error}", status=2) from None


_log = logging.getLogger(__name__)

_GRAPH_ENDINGS: Final = (".pbtxt", ".binarypb")


class ServedSources(NamedTuple):
    """The graphs and models that the arguments name, and a function to read them again.

    Attributes:
        python_path: files and directories of calculators that all graphs have; absolute.
        calculators: files with endpoints of authors, which are served; absolute.
    """

    graphs: tuple[GraphEntry, ...]
    reread: Callable[[], ServerConfig]
    models: tuple[ModelEntry, ...] = ()
    python_path: tuple[Path, ...] = ()
    metrics: MetricsConfig | None = None
    calculators: tuple[Path, ...] = ()


def check_choice(options: ServeOptions) -> None:
    """Check that the arguments name one thing to serve, or several that go together.

    Raises:
        CommandFailed: they do not.
    """
    server, source = options.server, options.source.source_model
    ways = {
        "MODEL": bool(options.sources),
        "--config_path": server.config_path is not None,
        "--model_path": server.model_path is not None,
        "--source_model": source is not None,
    }
    chosen = [way for way, is_chosen in ways.items() if is_chosen]
    if server.config_path is not None and (server.model_name is not None or len(chosen) > 1):
        if options.sources:
            raise CommandFailed("use either CONFIG or --config_path, not both", status=2)
        raise CommandFailed(
            "--model_name, --model_path and --source_model are exclusive with a config file",
            hint="use either --config_path, or one of the others",
            status=2,
        )
    if len(chosen) > 1:
        first = "CONFIG" if options.sources else chosen[0]
        raise CommandFailed(f"use either {first} or {chosen[1]}, not both", status=2)
    if not chosen:
        raise CommandFailed(
            "what is to be served?",
            hint="use a model, a graph or a config.json: graphrt serve MODEL",
            status=2,
        )
    if options.source.gguf_filename is not None and source is None:
        raise CommandFailed(
            "--gguf_filename needs --source_model: in which repository is the file?",
            hint="or write graphrt serve org/name:file.gguf",
            status=2,
        )
    if server.model_path is not None and not server.model_name:
        raise CommandFailed(
            "--model_path needs --model_name: under which name is the graph served?", status=2
        )
    if len(options.sources) > 1 and server.model_name is not None:
        raise CommandFailed(
            f"--model_name is the name of one model, and {len(options.sources)} are given",
            hint="start without it: each is served under its own name",
            status=2,
        )


def served(options: ServeOptions) -> ServedSources:
    """Find what the arguments name; models of a hub are downloaded, and safetensors exported.

    Raises:
        CommandFailed: something is not there, or cannot be served.
    """
    server, source = options.server, options.source
    if source.source_model is not None:
        search = _Search(options)
        folder = search.in_repository(source.source_model)
        if folder is not None:
            return search.of_repository(folder, source.source_model)
        return search.pulled(read_source(source.source_model, source.gguf_filename))
    words = options.sources or ((server.config_path or server.model_path or ""),)
    if len(words) == 1:
        return _Search(options).find(words[0])
    every: list[ServedSources] = []
    for word in words:
        if word.endswith(".json"):
            raise CommandFailed(
                f"{word}: a config.json stands alone",
                hint="list the models in it, or leave it out",
                status=2,
            )
        every.append(_Search(options).find(word))
    calculators = tuple(file for each in every for file in each.calculators)
    config = _joined(Path(words[0]), every)
    names = [*(graph.name for graph in config.graphs), *(model.name for model in config.models)]
    for name in names:
        if names.count(name) > 1:
            raise CommandFailed(
                f'two of {", ".join(words)} have the name "{name}"',
                hint="name them in a config.json",
                status=2,
            )
    reread = partial(_joined, Path(words[0]), every)
    return ServedSources(config.graphs, reread, config.models, calculators=calculators)


def _not_there(word: str) -> CommandFailed:
    """Return the error for a word that names neither a file nor an example model."""
    likely = near(word, [*example_models()])
    return CommandFailed(
        f"{word}: no such file or directory, and no example model has this name",
        hint=f"did you mean `{likely}`?"
        if likely
        else "`graphrt list` shows the models that are here; org/name is one of a hub",
    )


def _joined(path: Path, every: Sequence[ServedSources]) -> ServerConfig:
    """Read all of several graphs and models, which are then one configuration."""
    configs = [each.reread() for each in every]
    seen = SeenFiles()
    seen.add(config.seen for config in configs)
    return ServerConfig(
        path,
        tuple(graph for config in configs for graph in config.graphs),
        tuple(model for config in configs for model in config.models),
        findings=tuple(finding for config in configs for finding in config.findings),
        seen=seen,
    )


class _Search:
    """Search for the graph or model that one word of the command line names."""

    def __init__(self, options: ServeOptions) -> None:
        self._options = options
        self._name = options.server.model_name
        self._is_pulled = False

    def find(self, word: str) -> ServedSources:
        if is_remote(word):
            return self._in_store(word)
        path = Path(word)
        if not path.exists():
            path = example_model(word) or path
        reference = None if path.exists() else reference_of(word)
        if reference is not None:
            return self.pulled(reference)
        if self._options.sources and not path.exists() and not path.suffix:
            raise _not_there(word)
        return self._in(path)

    def in_repository(self, name: str) -> Path | None:
        """Return the folder of the model repository with this name, if it holds a model that no
        pull has brought there."""
        parts = Path(name).parts
        if Path(name).is_absolute() or ".." in parts or self._options.source.overwrite_models:
            return None
        folder = self._store_directory / name
        is_named_alone = len(parts) == 1
        if not folder.is_dir() or (folder / ORIGIN_FILE).exists():
            return None
        return folder if is_named_alone or self._is_graph(folder) else None

    def of_repository(self, folder: Path, name: str) -> ServedSources:
        """Return the model of a folder of the model repository, under its name there."""
        self._name = self._name or name
        return self._in(folder)

    def pulled(self, reference: ModelReference) -> ServedSources:
        """Find a model of a hub; download it if necessary."""
        options = self._options
        task = None if options.task is None else find_task(options.task)
        root = self._store_directory
        check_hub_files(options.of_task, root, root / reference.repository)
        model = pull_model(
            reference,
            root,
            ExportOfPull(
                reference, task, form_of(options.export, options.of_task), options.of_task
            ),
            overwrites=options.source.overwrite_models,
        )
        self._is_pulled = True
        has_graph = (model.directory / GRAPH_FILE).is_file()
        self._name = self._name or reference.repository
        return self._in(model.directory if has_graph else model.path)

    def _in_store(self, address: str) -> ServedSources:
        """Return the entry of a model in a store, which is downloaded while the server runs."""
        # Here: most servers serve what is on their disk.
        from servers.model_store.object_store import read_address

        options = self._options
        try:
            name = read_address(address).name
        except ModelError as error:
            raise CommandFailed(f"{address}: {error}", hint=error.hint) from error
        entry = _model_at(address, name, options)
        for flag in self._of_export:
            print_warning(f"--{flag} has no effect: models in a store are not exported")
        task = None if options.task is None else find_task(options.task)
        if task is None and options.of_task:
            raise CommandFailed(
                f"--{next(iter(options.of_task))} needs --task: which task has {address}?", status=2
            )
        if task is not None and entry.stored is not None:
            given = task_options_of(task, options.of_task)
            stored = replace(entry.stored, is_whole=True, task=task.name, options=given)
            entry = replace(entry, stored=stored)
        models = (entry,)
        return ServedSources((), lambda: ServerConfig(Path(address), (), models), models)

    @property
    def _of_export(self) -> tuple[str, ...]:
        """The flags about an export that does not happen; pulls report theirs."""
        return () if self._is_pulled else self._options.of_export

    @property
    def _store_directory(self) -> Path:
        return store_directory(self._options.repository.model_repository_path)

    def _in(self, path: Path) -> ServedSources:
        if path.suffix == GGUF and path.is_file():
            return self._of_model(path)
        if is_plain_model(path) and not self._is_graph(path):
            models = (plain_model(path, self._options),)
            return ServedSources((), lambda: ServerConfig(path, (), models), models)
        if path.is_dir():
            return self._of_directory(path)
        if self._options.server.model_path is not None:
            raise CommandFailed(f"--model_path {path}: no such directory, and no model's file")
        self._refuse_task(path)
        if path.suffix == ".py":
            return self._of_endpoints(path)
        if path.name.endswith(_GRAPH_ENDINGS):
            return _with_models(_graph_of_file(path, self._name))
        if self._name is not None:
            raise CommandFailed(
                "--model_name is exclusive with a config file, which has the names", status=2
            )
        return _of_config(path)

    def _of_endpoints(self, path: Path) -> ServedSources:
        """Return a file of endpoints, each of which is served under its function's name."""
        if not path.is_file():
            raise CommandFailed(f"{path}: no such file")
        if self._name is not None:
            raise CommandFailed(
                f"--model_name has no effect: what {path} serves has the names of its functions",
                status=2,
            )
        file = Path(os.path.abspath(path))
        return ServedSources((), lambda: ServerConfig(path, (), ()), calculators=(file,))

    def _is_graph(self, path: Path) -> bool:
        """Return whether a directory, even with folders of versions, is to be served as a graph."""
        return path.is_dir() and (
            self._options.task is not None
            or task_of_model(path) is not None
            or find_graph(path).graph_path.is_file()
        )

    def _of_directory(self, path: Path) -> ServedSources:
        """Return the directory's graph.pbtxt, or a graph for the model in it."""
        entry = find_graph(path, self._name)
        if entry.graph_path.is_file():
            for name in (*self._options.of_task, *self._options.of_model, *self._of_export):
                print_warning(
                    f"--{name} has no effect: {path} has a {GRAPH_FILE}, which is served as it is"
                )
            return _with_models(entry)
        if task_of_model(path) is None:
            files = sorted(each for each in path.glob(f"*{GGUF}") if each.is_file())
            if len(files) > 1 and not _is_one_model(files):
                names = ", ".join(each.name for each in files)
                raise CommandFailed(
                    f"{path} holds {len(files)} GGUF files: {names}",
                    hint=f"name one of them: graphrt serve {files[0]}",
                )
            if files:
                self._name = entry.name
                return self._of_model(files[0])
        return self._of_model(path)

    def _of_model(self, path: Path) -> ServedSources:
        """Make a graph for a model, by its task."""
        task = None if self._options.task is None else find_task(self._options.task)
        own_name = None if path.is_dir() else path.stem
        given, path = path, Path(os.path.abspath(path))
        is_gguf = path.is_file()
        if is_gguf and (task is None or task.converts_gguf):
            # Imported here: other models need none of it.
            from servers.cli.gguf_models import held_encoder

            path = held_encoder(path, self._name or path.stem) or path
        directory = path if path.is_dir() else path.parent
        entry = find_graph(directory, self._name or own_name)
        kind = "GGUF file" if is_gguf else "OpenVINO model"
        if is_safetensors(path):
            with model_store_at(self._store_directory) as store:
                path, task = export_of_directory(
                    path,
                    task,
                    form_of(self._options.export, self._options.of_task),
                    self._options.of_task,
                    store,
                    overwrites=self._options.source.overwrite_models,
                )
            directory = path
            entry = find_graph(directory, entry.name)
            kind = f"OpenVINO model, exported to {path}"
        else:
            for name in self._of_export:
                print_warning(f"--{name} has no effect: {given} is not a model of safetensors")
        task = task or task_of_model(path)
        if task is None:
            raise _no_model(given)
        for name in self._options.of_model:
            print_warning(f"--{name} has no effect: it is for plain models")
        of_task = with_further_models(
            self._options.of_task, task, self._options.export, self._store_directory, directory
        )
        text = graph_of_model(task, path, directory, of_task)
        _log.info("%s: %s, served as %s by %s", entry.name, kind, task.name, _options_in(text))
        return _with_models(replace(entry, graph_text=text))

    def _refuse_task(self, path: Path) -> None:
        """Refuse a task and its options for a graph or a config.json, which has its own."""
        flags = ["task"] if self._options.task is not None else list(self._options.of_task)
        flags += [*self._options.of_model, *self._options.of_export]
        if flags:
            raise CommandFailed(
                f"--{flags[0]} is for one model, and {path} is not a directory of a model",
                hint="use it with --model_path and --model_name; options of a graph's nodes are "
                "in its graph.pbtxt",
                status=2,
            )


# Files --------------------------------------------------------------------------------------------


def _is_one_model(files: Sequence[Path]) -> bool:
    from servers.model_store.wanted_files import is_one_model

    return is_one_model([each.name for each in files])


def _options_in(graph: str) -> str:
    """Return the options of a graph's node in one line."""
    _, _, rest = graph.partition("node_options {")
    _, _, rest = rest.partition("{")
    lines = rest.partition("\n    }")[0].split("\n")
    return ", ".join(line.strip() for line in lines if line.strip())


def _no_model(path: Path) -> CommandFailed:
    """Make the error for a directory without a model, with a remedy."""
    if any(path.glob("*.safetensors")):
        return CommandFailed(
            f"{path} holds safetensors without a config.json, which says of which model they are",
            hint="copy config.json and the tokenizer's files beside them",
        )
    config = path / "config.json"
    return CommandFailed(
        f"{path}: there is no {GRAPH_FILE} in this directory, and no model: neither one of a "
        f"task nor a folder of a version, such as 1",
        hint=f"for a config write `graphrt serve {config}`" if config.is_file() else None,
    )


def _with_models(entry: GraphEntry) -> ServedSources:
    """Return a graph with the models that its subconfig lists."""
    config = config_of(entry)
    for finding in config.findings:
        print(finding.to_text(), file=sys.stderr)
    return ServedSources((entry,), partial(config_of, entry), config.models)


def _graph_of_file(path: Path, name: str | None) -> GraphEntry:
    """Return the entry of a graph's file, named after its directory, or itself if unusual."""
    if not path.is_file():
        raise CommandFailed(f"{path}: no such file")
    path = path.absolute()
    own_name = path.parent.name if path.name == GRAPH_FILE else path.stem
    entry = find_graph(path.parent, name or own_name)
    return GraphEntry(entry.name, path.parent, path, entry.subconfig_path)


def _of_config(path: Path) -> ServedSources:
    try:
        config = read_config(path)
    except ConfigError as error:
        for finding in error.findings:
            print(finding.to_text(), file=sys.stderr)
        raise CommandFailed(f"{path} cannot be used; nothing is served") from error
    for finding in config.findings:
        print(finding.to_text(), file=sys.stderr)
    if not config.graphs and not config.models and not config.python_path:
        print_warning(f"{path}: no graph and no model is listed: nothing is served")
    reread = partial(read_config, path.absolute())
    return ServedSources(config.graphs, reread, config.models, config.python_path, config.metrics)
