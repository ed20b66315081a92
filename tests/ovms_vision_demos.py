"""OVMS's demos of MediaPipe's subgraphs against graphrt: ``python -m tests.ovms_vision_demos``.

Nightly, beside `tests.ovms_clients`, which says where the demos' files come from. Config, graph and
client are the demo's own, in the folder that its README describes, with MediaPipe's models from
where graphs find them (``graphrt pull mediapipe``). A demo whose files or packages are not here is
skipped, with the reason.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import cv2
import numpy as np
import numpy.typing as npt

from calculators.kit.graph_directory import find_mediapipe_file
from tests.ovms_clients import source
from tests.process.server_process import ServerProcess
from tests.servers.cli.process import environment

#: The folders of models that the READMEs make, with the files of MediaPipe in them.
_MODELS: Final = {
    "face_detection_short_range": "face_detection/face_detection_short_range.tflite",
    "face_landmark": "face_landmark/face_landmark.tflite",
    "hand_landmark_full": "hand_landmark/hand_landmark_full.tflite",
    "hand_recrop": "holistic_landmark/hand_recrop.tflite",
    "iris_landmark": "iris_landmark/iris_landmark.tflite",
    "pose_detection": "pose_detection/pose_detection.tflite",
    "pose_landmark_full": "pose_landmark/pose_landmark_full.tflite",
}
_HANDS: Final = "mediapipe/modules/hand_landmark/handedness.txt"
_DEMOS: Final = "demos/mediapipe"
_STREAM: Final = "demos/real_time_stream_analysis/python/client.py"
_STREAM_CLIENT: Final = "demos/common/stream_client"
_PEOPLE: Final = "demos/common/static/images/people"
#: Seconds after which a client counts as hanging.
_LONGEST: Final = 300
#: Mean difference from the picture in the demo's documents, of 255, that JPEG and fonts make.
_ALIKE: Final = 1.0


class Absent(Exception):
    """A file or package that a demo needs is not here."""


class Failed(Exception):
    """A demo does not do what it does with OpenVINO Model Server."""


def mediapipe_file(path: str) -> Path:
    found = find_mediapipe_file(path, Path())
    if found is None:
        raise Absent(f"{path} is nowhere: graphrt pull mediapipe")
    return found


def write_site(folder: Path, checkout: Path, kind: str) -> Path:
    """Write the folder of the demo ``kind``_tracking, with photographs; return its config."""
    for name in (f"config_{kind}.json", f"{kind}_tracking.pbtxt"):
        shutil.copy(checkout / _DEMOS / f"{kind}_tracking" / name, folder)
    for name, path in _MODELS.items():
        (folder / name / "1").mkdir(parents=True)
        shutil.copy(mediapipe_file(f"mediapipe/modules/{path}"), folder / name / "1")
    (folder / _HANDS).parent.mkdir(parents=True)
    shutil.copy(mediapipe_file(_HANDS), folder / _HANDS)
    names = sorted(each.name for each in (checkout / _PEOPLE).glob("*.jpeg"))
    for name in names:
        shutil.copy(checkout / _PEOPLE / name, folder)
    (folder / "input_images.txt").write_text("\n".join(names))
    return folder / f"config_{kind}.json"


def run(folder: Path, program: Path, *arguments: object, **environ: str) -> str:
    """Run a client in the demo's folder; return what it prints."""
    try:
        done = subprocess.run(
            [sys.executable, str(program), *map(str, arguments)],
            cwd=folder,
            env=environment() | environ,
            capture_output=True,
            text=True,
            timeout=_LONGEST,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Failed(f"it has not ended after {_LONGEST} s") from None
    if done.returncode or "Exception" in done.stderr:
        raise Failed((done.stderr or done.stdout).strip()[-500:])
    return done.stdout


def picture(file: Path) -> npt.NDArray[np.int64]:
    found = cv2.imread(str(file))
    if found is None:
        raise Failed(f"{file.name} is not there")
    return found.astype(np.int64)


def tracking(kind: str, folder: Path, checkout: Path) -> str:
    """Let the demo's client draw on photographs, and look at what it has written."""
    config = write_site(folder, checkout, kind)
    demo = checkout / _DEMOS / f"{kind}_tracking"
    with ServerProcess(config, "--port", "auto") as server:
        port = server.wait_for_log(r"serves grpc://\S+:(\d+)")[1]
        run(folder, demo / f"mediapipe_{kind}_tracking.py", "--grpc_port", port)
    names = (folder / "input_images.txt").read_text().splitlines()
    differences = [
        np.abs(picture(folder / f"image_{place}.jpg") - picture(folder / name))
        for place, name in enumerate(names)
    ]
    count = sum(bool((each > 60).any()) for each in differences)
    if not count:
        raise Failed("nothing is drawn on any picture")
    told = f"{count} of {len(names)} pictures are drawn on"
    if kind == "iris":  # the README shows this photograph
        own = picture(folder / f"image_{names.index('people2.jpeg')}.jpg")
        difference = np.abs(own - picture(demo / "output_image.jpg")).mean()
        told += f", {difference:.2f} of 255 from OVMS's own"
        if difference > _ALIKE:
            raise Failed(told)
    return told


def stream(folder: Path, checkout: Path) -> str:
    """Send the frames of a video in one stream of requests."""
    if importlib.util.find_spec("ffmpeg") is None:
        raise Absent("the package ffmpeg-python is not installed")
    config = write_site(folder, checkout, "holistic")
    code = cv2.VideoWriter.fourcc(*"MJPG")
    video = cv2.VideoWriter(str(folder / "people.avi"), code, 30, (600, 400))
    for file in sorted(folder.glob("*.jpeg")):
        for _ in range(5):
            video.write(cv2.resize(picture(file).astype(np.uint8), (600, 400)))
    video.release()
    path = os.pathsep.join([str(checkout / _STREAM_CLIENT), os.environ.get("PYTHONPATH", "")])
    with ServerProcess(config, "--port", "auto") as server:
        port = server.wait_for_log(r"serves grpc://\S+:(\d+)")[1]
        words = ["--grpc_address", f"127.0.0.1:{port}", "--input_stream", "people.avi"]
        words += ["--output_stream", "out.mp4", "--benchmark"]
        told = run(folder, checkout / _STREAM, *words, PYTHONPATH=path)
    frames = json.loads(told.splitlines()[-1])["frames"]
    if frames < 10:
        raise Failed(f"{frames} of 20 frames were answered")
    return f"{frames} of 20 frames"  # the client drops those that come late


def main() -> int:
    """Run the demos; return 1 if one fails."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", default=os.environ.get("OVMS_SOURCE"), metavar="DIR")
    checkout = source(parser.parse_args().source)
    has_failed = False
    for name in ("holistic", "iris", "stream"):
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            try:
                if checkout is None or not (checkout / _DEMOS).is_dir():
                    raise Absent("OpenVINO Model Server's demos are not here")
                told = (
                    stream(folder, checkout)
                    if name == "stream"
                    else tracking(name, folder, checkout)
                )
                print("passed", name, told, flush=True)
            except Absent as reason:
                print("skipped", name, reason, flush=True)
            except Failed as reason:
                has_failed = True
                print("FAILED", name, reason, flush=True)
    return int(has_failed)


if __name__ == "__main__":
    sys.exit(main())
