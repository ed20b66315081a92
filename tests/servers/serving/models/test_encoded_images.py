"""JPEG and PNG files sent to a plain model that takes images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import openvino
import pytest
from openvino import opset13 as op

from calculators.kit.requests.http_payload import RequestError
from calculators.tensors.inference import Tensor
from servers.serving.model_repository import ModelRepository
from tests.calculators.tensors.openvino.tiny_models import identity_model, named, parameter, save
from tests.servers.serving.asking import infer
from tests.servers.serving.models.model_folders import entry, image_model, request, serving

#: 4 rows of 5 pixels, blue, green, red.
PICTURE = np.arange(60, dtype=np.uint8).reshape(4, 5, 3) * 4


def png(pixels: Any) -> bytes:
    done, content = cv2.imencode(".png", pixels)
    assert done
    return bytes(content)


def files(*contents: bytes) -> Any:
    return np.array([*contents, None], object)[:-1]


def images(dtype: Any, *shape: int) -> Any:
    """Build a model whose ``OUT`` is ``IN``."""
    node = parameter("IN", list(shape), dtype)
    same = op.reshape(node, op.shape_of(node), special_zero=False)
    return openvino.Model([op.result(named(same, "OUT"))], [node], "images")


async def seen(repository: ModelRepository, *contents: bytes, name: str = "IN") -> Any:
    """Return the pixels that the model received."""
    (output,) = (await infer(repository, request("m", **{name: files(*contents)}))).outputs
    assert isinstance(output, Tensor)
    return output.data


@pytest.mark.parametrize("dtype", ["u1", "f4"])
def test_images_become_rows_of_blue_green_red(tmp_path: Path, dtype: str) -> None:
    save(images(np.dtype(dtype), -1, 4, 5, 3), tmp_path / "m" / "1" / "m.xml")

    async def scenario(repository: ModelRepository) -> None:
        turned = PICTURE[:, ::-1]
        got = await seen(repository, png(PICTURE), png(turned))
        assert got.dtype == dtype
        assert np.array_equal(got, np.stack([PICTURE, turned]))

    serving([entry(tmp_path, "m")], scenario)


def test_a_model_in_nchw_takes_images_when_its_layout_is_turned(tmp_path: Path) -> None:
    save(image_model(), tmp_path / "m" / "1" / "m.xml")

    async def turned(repository: ModelRepository) -> None:
        got = await seen(repository, png(PICTURE), name="IMAGE")
        assert np.array_equal(got[0], PICTURE.transpose(2, 0, 1).astype("f4") * 2)

    async def as_it_is(repository: ModelRepository) -> None:
        with pytest.raises(RequestError, match="the datatype is BYTES, not FP32"):
            await seen(repository, png(PICTURE), name="IMAGE")

    serving([entry(tmp_path, "m", layout="NHWC:NCHW")], turned)
    serving([entry(tmp_path, "m")], as_it_is)


def test_grey_and_colour_images_are_converted_for_the_model(tmp_path: Path) -> None:
    save(images(np.uint8, 1, 4, 5, 1), tmp_path / "grey" / "1" / "m.xml")
    save(images(np.uint8, 1, 4, 5, 3), tmp_path / "m" / "1" / "m.xml")
    grey = PICTURE[:, :, :1]

    async def scenario(repository: ModelRepository) -> None:
        (output,) = (await infer(repository, request("grey", IN=files(png(grey))))).outputs
        assert isinstance(output, Tensor)
        assert np.array_equal(output.data[0], grey)
        assert np.array_equal((await seen(repository, png(grey)))[0], grey.repeat(3, axis=2))
        (output,) = (await infer(repository, request("grey", IN=files(png(PICTURE))))).outputs
        assert output.shape == (1, 4, 5, 1)

    serving([entry(tmp_path, "grey"), entry(tmp_path, "m")], scenario)


@pytest.mark.parametrize(
    ("shape", "size"),
    [("(1,8,10,3)", (8, 10)), ("(1,-1,-1,3)", (4, 5)), ("(1,6:9,1:3,3)", (6, 3))],
)
def test_images_are_resized_for_the_model(
    tmp_path: Path, shape: str, size: tuple[int, int]
) -> None:
    save(images(np.uint8, 1, 4, 5, 3), tmp_path / "m" / "1" / "m.xml")

    async def scenario(repository: ModelRepository) -> None:
        assert (await seen(repository, png(PICTURE))).shape == (1, *size, 3)

    serving([entry(tmp_path, "m", shape=shape)], scenario)


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        ([b"GIF89a"], r'inputs\[0\] "IN": element 0: '),
        ([png(PICTURE), png(PICTURE)[:60]], r'inputs\[0\] "IN": element 1: '),
        ([png(PICTURE), png(PICTURE[:2])], r"element 1 is 5x2 pixels, and element 0 is not"),
        ([], r"the shape is \[0\]; encoded images have the shape \[-1\]"),
    ],
)
def test_data_that_is_not_an_image_is_refused_by_its_place(
    tmp_path: Path, contents: list[bytes], message: str
) -> None:
    save(images(np.uint8, -1, -1, -1, 3), tmp_path / "m" / "1" / "m.xml")

    async def scenario(repository: ModelRepository) -> None:
        with pytest.raises(RequestError, match=message):
            await seen(repository, *contents)

    serving([entry(tmp_path, "m")], scenario)


def test_a_model_without_image_inputs_refuses_images(tmp_path: Path) -> None:
    save(identity_model(np.float32, [1, 5]), tmp_path / "m" / "1" / "m.xml")

    async def scenario(repository: ModelRepository) -> None:
        with pytest.raises(RequestError, match=r'"X": the datatype is BYTES, not FP32'):
            await seen(repository, png(PICTURE), name="X")

    serving([entry(tmp_path, "m")], scenario)
