"""`graphrt run`: feed packets into a graph and print what comes out, as JSON lines."""

from __future__ import annotations

import argparse
import contextlib
import sys
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from calculators.kit.graph_directory import GRAPH_DIRECTORY
from calculators.tensors.openvino.directory_models import DirectoryModels
from calculators.tensors.openvino.model_provider import MODELS
from graph_runtime import (
    CalculatorError,
    GraphError,
    Packet,
    RunError,
    Tracer,
    ValidatedGraph,
)
from graph_runtime.authoring.author_frame import author_frame
from graph_runtime.errors import did_you_mean
from servers.cli import language_run
from servers.cli.feed import FeedError, FeedLine, read_feed
from servers.cli.feed_runner import FeedRunner, observed_streams
from servers.cli.graph_registry import located, make_registry
from servers.cli.interrupt import INTERRUPTED, Interrupt
from servers.cli.json_lines import JsonLines, json_lines_output
from servers.cli.json_value import decode_value, encode_time, encode_value, parse_json
from servers.cli.messages import CommandFailed, print_error, print_warning
from servers.cli.run_resources import node_resources
from servers.cli.video_run import VideoRun
from servers.serving.graph_source import GraphSource


def execute(args: argparse.Namespace) -> int:
    """Run the command and return the exit code."""
    side_packets = dict(_side_packet(text) for text in args.side_packet)
    is_language = language_run.is_asked(args)
    with json_lines_output() as output, _feed_stream(args.feed) as feed:
        registry = make_registry(args)
        try:
            source = GraphSource(args.graph, registry)
            plan = source.validate()
        except GraphError as error:
            raise CommandFailed(located(args.graph, error)) from error
        _check_names(side_packets, source, plan)
        for warning in plan.warnings:
            print_warning(f"{args.graph}: {warning}")
        if is_language:
            return language_run.ask(args, plan, source.registry, side_packets, output)
        tracer = _tracer(args.trace)
        with (
            node_resources(args.graph, plan, source.registry, side_packets) as resources,
            _video(args, plan) as video,
        ):

            def show(stream: str, packet: Packet) -> None:
                if video is None or not video.take(stream, packet):
                    output.write(_packet_line(stream, packet))

            runner = FeedRunner(
                plan,
                source.registry,
                _streams(args, plan),
                show,
                observe_bounds=args.observe_bounds,
                on_error=_print_traceback if args.verbose else None,
                tracer=tracer,
                resources=resources,
            )
            directory = Path(args.graph).parent
            runner.graph.set_service_object(MODELS, DirectoryModels(directory))
            runner.graph.set_service_object(GRAPH_DIRECTORY, directory)
            if video is not None:
                status = _drive(runner, side_packets, video.lines(), is_watched=True)
            else:
                lines = read_feed(feed, _feed_name(args.feed)) if feed is not None else iter(())
                # On a terminal, show the effect of each line. Endless sources would never be idle.
                is_watched = feed is not None and feed.isatty() and not has_sources(plan)
                status = _drive(runner, side_packets, lines, is_watched=is_watched)
        _write_side_packets(runner, output)
        if tracer is not None:
            try:
                tracer.save(args.trace)
            except OSError as error:
                raise CommandFailed(f"`--trace {args.trace}`: {error.strerror}") from None
    return status


def _drive(
    runner: FeedRunner,
    side_packets: dict[str, Any],
    lines: Iterator[FeedLine],
    *,
    is_watched: bool,
) -> int:
    """Start the run, apply the lines, finish the run, and return the exit code.

    ``is_watched``: after each line wait for all its effects.
    """
    with Interrupt(runner.graph.cancel).installed() as interrupt:
        try:
            runner.start(side_packets)
            while (line := _next_line(lines, interrupt)) is not None:
                runner.apply(line)
                if is_watched:
                    runner.graph.wait_until_idle()
            runner.finish()
            interrupt.check()
        except KeyboardInterrupt:
            status = INTERRUPTED
        except FeedError as error:
            status = _fail(interrupt, str(error), error.hint)
        except GraphError as error:
            line = runner.blamed
            where = f"{line.place}: {line.operation}: " if line is not None else ""
            status = _fail(interrupt, where + str(error), _raised_at(error))
        else:
            status = 0
            for text in runner.graph.held_back():
                print_warning(f"the run is over, and {text}")
        runner.abandon()
    return status


def _raised_at(error: GraphError) -> str | None:
    """Return a hint with the place in an author's calculator where the first error began."""
    first = error.errors[0] if isinstance(error, RunError) else error
    if isinstance(first.__cause__, GraphError):  # the text is enough
        return None
    frame = author_frame(first)
    return None if frame is None else f"raised at {frame}; --verbose shows the whole traceback"


def _fail(interrupt: Interrupt, message: str, hint: str | None = None) -> int:
    if interrupt.was_called:
        return INTERRUPTED
    print_error(message, hint)
    return 1


def _next_line(lines: Iterator[FeedLine], interrupt: Interrupt) -> FeedLine | None:
    with interrupt.reading():
        return next(lines, None)


def has_sources(plan: ValidatedGraph) -> bool:
    return any(node.is_source for node in plan.nodes)


# Arguments ----------------------------------------------------------------------------------------


def _side_packet(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise CommandFailed(
            f"`--side-packet {text}`: NAME=JSON is needed, such as `--side-packet limit=3`",
            status=2,
        )
    try:
        return name, decode_value(parse_json(value))
    except (ValueError, RecursionError) as error:
        raise CommandFailed(
            f"`--side-packet {text}`: the value of {name} is not usable: {error}",
            hint=f"""a string needs quotes of its own: `--side-packet '{name}="..."'`""",
            status=2,
        ) from None


def _check_names(
    side_packets: Mapping[str, Any], source: GraphSource, plan: ValidatedGraph
) -> None:
    """Refuse side packets that nothing takes: a misspelt one would change nothing, silently."""
    declared = (entry.rpartition(":")[2] for entry in source.config.input_side_packet)
    known = {*plan.side_packet_types, *declared}
    for name in side_packets:
        if name not in known:
            near = did_you_mean(name, known)
            names = ", ".join(f'"{each}"' for each in sorted(known)) or "none"
            raise CommandFailed(
                f'`--side-packet {name}=...`: no node of the graph takes "{name}".'
                + (near or f" Side packets from outside: {names}"),
                status=2,
            )


@contextlib.contextmanager
def _feed_stream(path: str | None) -> Iterator[BinaryIO | None]:
    if path is None:
        yield None
    elif path == "-":
        yield sys.stdin.buffer
    else:
        try:
            file = open(path, "rb")  # noqa: SIM115 - closed below
        except OSError as error:
            raise CommandFailed(f"`--feed {path}`: {error.strerror}") from None
        with file:
            yield file


def _feed_name(path: str | None) -> str:
    return "<stdin>" if path == "-" else path or ""


@contextlib.contextmanager
def _video(args: argparse.Namespace, plan: ValidatedGraph) -> Iterator[VideoRun | None]:
    if args.video is None:
        if args.write_video is not None:
            raise CommandFailed("--write-video needs --video", status=2)
        yield None
        return
    if args.feed is not None:
        raise CommandFailed("--video is exclusive with --feed", status=2)
    video = VideoRun(plan, args.video, args.write_video)
    try:
        yield video
    finally:
        video.close()


def _tracer(path: str | None) -> Tracer | None:
    if path is None:
        return None
    try:
        # Fail before the run, which may be long.
        open(path, "wb").close()
    except OSError as error:
        raise CommandFailed(f"`--trace {path}`: {error.strerror}") from None
    return Tracer()


def _streams(args: argparse.Namespace, plan: ValidatedGraph) -> list[str]:
    """Return the streams to print (`observed_streams`), by ``--observe``."""
    asked = [text.rpartition(":")[2] for text in args.observe]
    for name in asked:
        if name not in plan.producers:
            raise CommandFailed(
                f'Unable to attach observer to output stream "{name}" because it doesn\'t exist.'
                f"{did_you_mean(name, plan.producers)}",
                hint=f"the streams of this graph are {', '.join(plan.producers) or 'none'}",
            )
    for name in () if asked else plan.outputs.names:
        if name not in plan.producers:
            print_warning(
                f'{args.graph}: output_stream "{name}" has no producer'
                f"{did_you_mean(name, plan.producers)}"
            )
    return observed_streams(asked, plan)


# Output -------------------------------------------------------------------------------------------


def _packet_line(stream: str, packet: Packet) -> dict[str, Any]:
    value = None if packet.is_empty() else encode_value(packet.value)
    return {"stream": stream, "ts": encode_time(packet.time), "value": value}


def _write_side_packets(runner: FeedRunner, output: JsonLines) -> None:
    for name, value in runner.output_side_packets():
        output.write({"side_packet": name, "value": encode_value(value)})


def _print_traceback(error: GraphError) -> None:
    if isinstance(error, CalculatorError) and error.__cause__ is not None:
        traceback.print_exception(error.__cause__)
