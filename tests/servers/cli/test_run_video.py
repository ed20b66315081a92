"""`graphrt run --video`: frames of a video file in, JSON lines and a video out."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from calculators.images.image.image_frame import ImageFormat, ImageFrame
from calculators.images.image.video_file import VideoReader, VideoWriter
from graph_runtime import GraphError
from tests.servers.cli.process import graphrt

SIZE = (64, 48)
FRAMES = 12

#: The size of each frame, and the frames themselves.
GRAPH = """
input_stream: "IMAGE:image"
output_stream: "SIZE:size"
output_stream: "IMAGE:same"
node {
  calculator: "ImagePropertiesCalculator"
  input_stream: "IMAGE:image"
  output_stream: "SIZE:size"
}
node { calculator: "PassThroughCalculator" input_stream: "image" output_stream: "same" }
"""

#: A video file to a video file, by MediaPipe's nodes.
COPY = """
input_side_packet: "input_path"
input_side_packet: "output_path"
node {
  calculator: "OpenCvVideoDecoderCalculator"
  input_side_packet: "INPUT_FILE_PATH:input_path"
  output_stream: "VIDEO:video"
  output_stream: "VIDEO_PRESTREAM:header"
}
node {
  calculator: "OpenCvVideoEncoderCalculator"
  input_stream: "VIDEO:video"
  input_stream: "VIDEO_PRESTREAM:header"
  input_side_packet: "OUTPUT_FILE_PATH:output_path"
  options {
    [mediapipe.OpenCvVideoEncoderCalculatorOptions.ext] { codec: "MJPG" video_format: "avi" }
  }
}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a graph and a video whose frames brighten from black."""
    (tmp_path / "graph.pbtxt").write_text(GRAPH)
    (tmp_path / "copy.pbtxt").write_text(COPY)
    writer = VideoWriter(str(tmp_path / "in.avi"), "MJPG", 25.0, SIZE)
    for frame in range(FRAMES):
        pixels = np.full((SIZE[1], SIZE[0], 3), 20 * frame, np.uint8)
        writer.write(ImageFrame(ImageFormat.SRGB, pixels))
    writer.close()
    return tmp_path


def frames(path: Path) -> list[tuple[int, float]]:
    """Return the time and the mean brightness of each frame of a video."""
    video = VideoReader(str(path))
    try:
        return [(time, float(frame.pixels.mean())) for time, frame in video]
    finally:
        video.close()


def test_frames_become_packets_at_their_times_and_images_a_video(folder: Path) -> None:
    done = graphrt(
        *("run", "graph.pbtxt", "--video", "in.avi", "--write-video", "out.avi"), cwd=folder
    )
    assert (done.returncode, done.stderr) == (0, "")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["value"] for each in found] == [list(SIZE)] * FRAMES
    assert {each["stream"] for each in found} == {"size"}
    assert [each["ts"] for each in found] == [time for time, _ in frames(folder / "in.avi")]
    written = frames(folder / "out.avi")
    assert [round(mean, -1) for _, mean in written] == [20 * frame for frame in range(FRAMES)]


def test_nodes_of_mediapipe_read_and_write_a_video(folder: Path) -> None:
    paths = [f'{name}_path="{folder / name}.avi"' for name in ("in", "out")]
    done = graphrt(
        *("run", "copy.pbtxt", "--side-packet", paths[0].replace("in_path", "input_path")),
        *("--side-packet", paths[1].replace("out_path", "output_path")),
        cwd=folder,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(frames(folder / "out.avi")) == FRAMES


def test_a_codec_that_is_not_here_is_replaced_in_mp4_files(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    writer = VideoWriter(str(tmp_path / "out.mp4"), "zzz1", 25.0, SIZE)
    writer.write(ImageFrame(ImageFormat.SRGB, np.zeros((SIZE[1], SIZE[0], 3), np.uint8)))
    writer.close()
    assert "is written as mp4v: this OpenCV cannot write zzz1" in caplog.text
    reader = VideoReader(str(tmp_path / "out.mp4"))
    assert (reader.width, reader.height) == SIZE
    reader.close()
    with pytest.raises(GraphError, match="does not have the codec"):
        VideoWriter(str(tmp_path / "out.avi"), "zzz1", 25.0, SIZE)


def test_a_video_that_breaks_off_ends_there_with_a_warning(folder: Path) -> None:
    whole = (folder / "in.avi").read_bytes()
    data = whole.index(b"movi")
    (folder / "in.avi").write_bytes(whole[: data + (len(whole) - data) // 2])
    done = graphrt("run", "graph.pbtxt", "--video", "in.avi", "--observe", "size", cwd=folder)
    assert done.returncode == 0
    assert 0 < len(done.stdout.splitlines()) < FRAMES
    assert "in.avi ends after " in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--video", "none.avi"], 'there is no video file "none.avi"'),
        (["--video", "graph.pbtxt"], '"graph.pbtxt" is not a video that can be read'),
        (["--video", "in.avi", "--write-video", "out.txt"], "ends in one of .mp4, .avi, .mkv"),
        (["--video", "in.avi", "--write-video", "no/out.avi"], "there is no folder"),
        (["--write-video", "out.avi"], "--write-video needs --video"),
        (["--video", "in.avi", "--feed", "-"], "--video is exclusive with --feed"),
    ],
    ids=["no file", "no video", "no format", "no folder", "nothing to read", "two feeds"],
)
def test_videos_that_cannot_be_used_are_refused(folder: Path, words: list[str], said: str) -> None:
    done = graphrt("run", "graph.pbtxt", *words, cwd=folder)
    assert done.returncode != 0
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_graph_without_images_is_refused(folder: Path) -> None:
    (folder / "graph.pbtxt").write_text(
        'input_stream: "a" input_stream: "b" output_stream: "c"\n'
        'node { calculator: "MergeCalculator" input_stream: "a" input_stream: "b" '
        'output_stream: "c" }'
    )
    done = graphrt("run", "graph.pbtxt", "--video", "in.avi", cwd=folder)
    assert done.returncode != 0
    assert "one input stream of images" in done.stderr
