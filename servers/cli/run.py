"""`graphrt run`: feed packets into a graph and print what comes out, as JSON lines."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final, TextIO

from calculators.images.image.image_frame import ImageFrame
from calculators.images.image.video_file import VideoReader, VideoWriter
from calculators.kit.graph_directory import GRAPH_DIRECTORY
from calculators.tensors.openvino.directory_models import MODELS, DirectoryModels
from graph_runtime import CalculatorError, GraphError, Packet, RunError, Tracer, ValidatedGraph
from graph_runtime.authoring.author_frame import author_frame
from graph_runtime.errors import did_you_mean
from servers.cli import language_run
from servers.cli.feed import AddPacket, FeedError, FeedLine, FeedRunner, observed_streams, read_feed
from servers.cli.graph_check import calculator_hint
from servers.cli.graph_registry import graph_file, located, make_registry
from servers.cli.interrupt import INTERRUPTED, Interrupt
from servers.cli.json_value import decode_value, encode_time, encode_value, parse_json
from servers.cli.language_run import node_resources
from servers.cli.messages import (
    CommandFailed,
    JsonLines,
    json_lines_output,
    print_error,
    print_warning,
)
from servers.serving.graph_source import GraphSource

#: The codec of written videos, by the ending of the file.
_CODECS: Final = {".mp4": "mp4v", ".avi": "MJPG", ".mkv": "MJPG"}
#: Tags of inputs of images.
_TAGS: Final = ("IMAGE", "VIDEO")
#: Seconds between two lines of progress.
_STEP: Final = 0.2


class VideoRun:
    """The videos of one run: one that is read, and one that may be written.

    Raises:
        CommandFailed: a file cannot be used, or the graph has no single input of images.
    """

    def __init__(self, plan: ValidatedGraph, path: str, written: str | None) -> None:
        self._stream = _image_input(plan)
        try:
            self._video = VideoReader(path)
        except GraphError as error:
            raise CommandFailed(f"`--video {path}`: {error}") from None
        self._path = path
        self._written = written
        if written is not None and Path(written).suffix not in _CODECS:
            raise CommandFailed(
                f"`--write-video {written}`: the file ends in one of {', '.join(_CODECS)}", status=2
            )
        self._writer: VideoWriter | None = None
        self._source = ""

    def lines(self, terminal: TextIO | None = None) -> Iterator[FeedLine]:
        """Yield the frames as operations of a feed; show the progress on a terminal."""
        terminal = sys.stderr if terminal is None else terminal
        started, shown = time.monotonic(), 0.0
        is_watched = terminal.isatty()
        for at, frame in self._video:
            yield FeedLine(
                f"{self._path}: frame {self._video.frames}",
                AddPacket(self._stream, Packet(frame, at)),
            )
            now = time.monotonic()
            if is_watched and now - shown > _STEP:
                shown = now
                rate = self._video.frames / (now - started)
                count = max(self._video.count, self._video.frames)
                terminal.write(
                    f"\r\x1b[Kframe {self._video.frames} of {count}, {rate:.1f} per second"
                )
                terminal.flush()
        if is_watched:
            terminal.write("\r\x1b[K")
            terminal.flush()
        if self._video.frames < self._video.count:
            print_warning(
                f"{self._path} ends after {self._video.frames} of {self._video.count} frames"
            )

    def take(self, stream: str, packet: Packet) -> bool:
        """Write a packet to the video if it is an image; return whether it was.

        Raises:
            GraphError: the video cannot be written, or the image is of another size.
        """
        if self._written is None or packet.is_empty():
            return False
        frame = packet.value
        if not isinstance(frame, ImageFrame):
            return False
        if self._writer is None:
            size = (frame.width, frame.height)
            codec = _CODECS[Path(self._written).suffix]
            self._writer = VideoWriter(self._written, codec, self._video.frame_rate, size)
            self._source = stream
        if stream != self._source:
            return False
        self._writer.write(frame)
        return True

    def close(self) -> None:
        """Finish the files."""
        self._video.close()
        if self._writer is not None:
            self._writer.close()
        elif self._written is not None:
            print_warning(f"no image came out of the graph: {self._written} was not written")


def _image_input(plan: ValidatedGraph) -> str:
    """Return the graph's only input stream, or the only one of images."""
    inputs = list(plan.graph_inputs)
    found = inputs
    if len(inputs) > 1:
        found = [
            each
            for each in inputs
            if each.tag in _TAGS or ImageFrame in getattr(each.packet_type.root(), "types", ())
        ]
    if len(found) != 1:
        names = ", ".join(each.name for each in inputs) or "none"
        raise CommandFailed(
            "--video needs a graph with one input stream of images (tag IMAGE or VIDEO); the input "
            f"streams are: {names}"
        )
    return str(found[0].name)


def execute(args: argparse.Namespace) -> int:
    """Run the command and return the exit code."""
    args.graph = graph_file(args.graph)
    side_packets = dict(_side_packet(text) for text in args.side_packet)
    is_language = language_run.is_asked(args)
    with json_lines_output() as output, _feed_stream(args.feed) as feed:
        registry = make_registry(args)
        try:
            source = GraphSource(args.graph, registry)
            plan = source.validate()
        except GraphError as error:
            causes = [each.__cause__ for each in getattr(error, "findings", ())]
            hints = filter(None, (calculator_hint(each, args.graph) for each in causes))
            raise CommandFailed(located(args.graph, error), hint=next(hints, None)) from error
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
