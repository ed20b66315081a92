"""Images that tiny models draw in their real processes."""

from __future__ import annotations

import asyncio
import io
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from PIL import Image

from calculators.images.image.image_frame import ImageFormat, ImageFrame
from calculators.images.image_generation.request import text_request
from calculators.kit.requests.http_payload import HttpPayload, RequestError
from graph_runtime import (
    REGISTRY,
    CalculatorGraph,
    Code,
    ResourceError,
    ResourceSettings,
    make_resources,
)
from servers.config import find_graph
from servers.serving.loaded_graph import GraphSettings, load_graph
from tests.calculators.images.image_generation.drawn import (
    Drawn,
    Pixels,
    edit_payload,
    pictures,
    pixels,
    same,
    served,
)
from tests.calculators.images.image_generation.image_models import (
    NODE_GRAPH,
    SIDE,
    graph,
    make_model,
    write_lora,
)
from tests.calculators.images.media.pictures import picture, promising_png
from tests.calculators.llm.graph_texts import plan_of
from tests.support.patience import PATIENCE

#: Runs a scenario.
Drawing: TypeAlias = Callable[[Callable[[Drawn], Awaitable[None]]], None]


#: Options with which images of 256 x 256 pixels in 900 steps are ordinary.
LONG = 'max_num_inference_steps: 900 default_num_inference_steps: 900 default_resolution: "256x256"'


@pytest.fixture(scope="module")
def drawing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drawing]:
    """A function that runs a scenario with a graph that several tests share."""
    options = 'default_num_inference_steps: 2 max_resolution: "256x136"'
    directory = make_model(tmp_path_factory.mktemp("images") / "sd", text=graph(options))
    with asyncio.Runner() as runner:
        loaded = runner.run(load_graph(find_graph(directory), REGISTRY))
        yield lambda scenario: runner.run(asyncio.wait_for(scenario(Drawn(loaded)), PATIENCE))
        runner.run(loaded.close())


def test_the_same_seed_draws_the_same_image(drawing: Drawing) -> None:
    async def scenario(drawn: Drawn) -> None:
        first = await drawn.generate(prompt="a cat", seed=3)
        again = await drawn.generate(prompt="a cat", rng_seed=3)
        assert first["data"] == again["data"]
        assert pictures(first)[0].shape == (SIDE, SIDE, 3)
        assert [part["seed"] for part in first["data"]] == [3]
        assert (first["output_format"], first["size"]) == ("png", f"{SIDE}x{SIDE}")
        # a, cat and two signs around them, one for each letter.
        assert first["usage"]["input_tokens"] == 6
        # The model reads 77 tokens.
        long = await drawn.generate(prompt="cat " * 200, seed=3)
        assert long["usage"]["input_tokens"] == 77
        assert first["created"] > 1.7e9
        other = await drawn.generate(prompt="a cat", seed=4)
        assert not same(pictures(first)[0], pictures(other)[0])
        prompt = await drawn.generate(prompt="a dog", seed=3)
        assert not same(pictures(first)[0], pictures(prompt)[0])
        random = [await drawn.generate(prompt="a cat") for _ in range(2)]
        seeds = [answer["data"][0]["seed"] for answer in random]
        assert not same(*(pictures(answer)[0] for answer in random))
        told = await drawn.generate(prompt="a cat", seed=seeds[0])
        assert same(pictures(told)[0], pictures(random[0])[0])

    drawing(scenario)


def test_size_number_and_format_are_those_of_the_request(drawing: Drawing) -> None:
    async def scenario(drawn: Drawn) -> None:
        one = await drawn.generate(prompt="a", seed=1, size="72x136")
        three = await drawn.generate(prompt="a", seed=1, size="72x136", n=3)
        assert [each.shape for each in pictures(three)] == [(136, 72, 3)] * 3
        assert three["size"] == "72x136"
        assert same(pictures(one)[0], pictures(three)[0])
        assert not same(pictures(three)[0], pictures(three)[1])
        for output_format, kind in (("jpeg", "JPEG"), ("webp", "WEBP")):
            best, worst = [
                await drawn.generate(
                    prompt="a",
                    seed=1,
                    size="72x136",
                    output_format=output_format,
                    output_compression=quality,
                )
                for quality in (100, 0)
            ]
            assert best["output_format"] == output_format
            assert len(best["data"][0]["b64_json"]) > len(worst["data"][0]["b64_json"])
            wanted = pictures(one)[0].astype(float)
            errors = [
                np.abs(pixels(answer["data"][0], kind) - wanted).mean() for answer in (best, worst)
            ]
            assert errors[0] < errors[1]

    drawing(scenario)


def test_steps_and_guidance_change_an_image(drawing: Drawing) -> None:
    async def scenario(drawn: Drawn) -> None:
        bodies: list[dict[str, Any]] = [
            {},
            {"steps": 3},
            {"guidance_scale": 2},
            {"negative_prompt": "a dog"},
        ]
        answers = [await drawn.generate(prompt="a cat", seed=1, **body) for body in bodies]
        found = {pictures(answer)[0].tobytes() for answer in answers}
        assert len(found) == len(bodies)

    drawing(scenario)


def test_unfinished_images_come_before_the_finished_one(drawing: Drawing) -> None:
    async def scenario(drawn: Drawn) -> None:
        # Images that are not decoded by the last step are left out.
        given: dict[str, Any] = {"prompt": "a", "seed": 1, "steps": 60}
        whole = await drawn.generate(**given, n=2)
        events = await drawn.events(**given, n=2, partial_images=3)
        *unfinished, first = [event for event in events if event["index"] == 0]
        second = events[-1]
        assert {event["type"] for event in unfinished} == {"image_generation.partial_image"}
        assert [event["partial_image_index"] for event in unfinished] == [0, 1, 2][
            : len(unfinished)
        ]
        assert {event["type"] for event in (first, second)} == {"image_generation.completed"}
        # One image after the other.
        places = [event["index"] for event in events]
        assert places == sorted(places)
        assert second["index"] == 1
        last = [pixels(event) for event in (first, second)]
        assert all(map(same, last, pictures(whole)))
        # Each is nearer to the finished one than the one before.
        distances = [np.abs(pixels(event).astype(float) - last[0]).mean() for event in unfinished]
        assert distances == sorted(distances, reverse=True)
        assert first["usage"] == whole["usage"]
        assert {event["size"] for event in unfinished} == {f"{SIDE}x{SIDE}"}
        (only,) = await drawn.events(**given)
        assert (only["type"], only["seed"]) == ("image_generation.completed", 1)
        assert same(pixels(only), last[0])

    drawing(scenario)


def test_there_are_no_more_unfinished_images_than_steps(drawing: Drawing) -> None:
    async def scenario(drawn: Drawn) -> None:
        for steps in (1, 2, 3):
            events = await drawn.events(prompt="a", steps=steps, partial_images=3)
            assert len(events) <= steps

    drawing(scenario)


# Edits --------------------------------------------------------------------------------------------


def halves(mode: str, left: Any, right: Any) -> bytes:
    """Return a PNG of two colours."""
    image = Image.new(mode, (SIDE, SIDE), left)
    image.paste(right, (SIDE // 2, 0, SIDE, SIDE))
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def test_an_edit_begins_with_the_image(drawing: Drawing) -> None:
    async def scenario(drawn: Drawn) -> None:
        given: dict[str, Any] = {"prompt": "a cat", "seed": 1, "steps": 10}
        image = picture(SIDE, SIDE)
        half = await drawn.edit(image, **given, strength=0.5)
        whole = await drawn.edit(image, **given, strength=1)
        other = await drawn.edit(picture(SIDE, SIDE, colour=(0, 200, 0)), **given, strength=0.5)
        assert half["size"] == f"{SIDE}x{SIDE}"
        found = [pictures(each)[0] for each in (half, whole, other)]
        assert not same(found[0], found[1])
        assert not same(found[0], found[2])
        again = await drawn.edit(image, **given, strength=0.5)
        assert same(pictures(again)[0], found[0])
        variations = await drawn.edit(image, path="variations", n=2, steps=10)
        assert len(pictures(variations)) == 2

    drawing(scenario)


@pytest.mark.parametrize(
    ("image", "fields", "size"),
    [
        (picture(61, 50), {}, "64x48"),
        (picture(3, 3), {}, "8x8"),
        (picture(200, 100), {}, "128x64"),
        # A picture decides up to twice the model's own sides; more has to be asked for.
        (picture(400, 100), {}, "128x32"),
        (picture(5000, 5000, colour=0, mode="1"), {}, "128x128"),
        (picture(5000, 5000, colour=0, mode="1"), {"size": "256x136"}, "256x136"),
        (picture(64, 64), {"size": "128x72"}, "128x72"),
        (picture(64, 64, "JPEG"), {}, "64x64"),
        (picture(64, 64, "WEBP"), {"output_format": "webp"}, "64x64"),
        (picture(64, 64, colour=(0, 0, 0, 0), mode="RGBA"), {}, "64x64"),
        (picture(64, 64, colour=5, mode="L"), {}, "64x64"),
    ],
)
def test_pictures_of_every_kind_are_taken(
    drawing: Drawing, image: bytes, fields: dict[str, Any], size: str
) -> None:
    async def scenario(drawn: Drawn) -> None:
        answer = await drawn.edit(image, prompt="a", **fields)
        assert answer["size"] == size

    drawing(scenario)


def test_a_picture_is_turned_by_its_exif_data(drawing: Drawing) -> None:
    file = io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was held upright
    Image.new("RGB", (64, 128), (9, 9, 9)).save(file, "JPEG", exif=exif)

    async def scenario(drawn: Drawn) -> None:
        answer = await drawn.edit(file.getvalue(), prompt="a")
        assert answer["size"] == "128x64"

    drawing(scenario)


@pytest.mark.parametrize(
    "mask",
    [
        halves("RGBA", (255, 255, 255, 255), (255, 255, 255, 0)),
        halves("RGB", (0, 0, 0), (255, 255, 255)),
        halves("L", 0, 255),
        halves("RGBA", (0, 0, 0, 255), (255, 255, 255, 255)),
    ],
    ids=["transparent", "white", "grey", "opaque"],
)
def test_only_the_masked_half_is_drawn_anew(drawing: Drawing, mask: bytes) -> None:
    image = picture(SIDE, SIDE)

    async def scenario(drawn: Drawn) -> None:
        given: dict[str, Any] = {"prompt": "a", "steps": 4, "strength": 1}
        first, second = [
            pictures(await drawn.edit(image, mask, **given, seed=seed))[0] for seed in (1, 2)
        ]
        # The model's decoder sees a few pixels beyond the edge of the mask.
        edge = SIDE // 2
        kept, drawn_anew = np.s_[:, : edge // 4], np.s_[:, edge:]
        changes = np.abs(first.astype(float) - second)
        assert changes[drawn_anew].mean() > 4 * changes[kept].mean()

    drawing(scenario)


# Errors -------------------------------------------------------------------------------------------


def bomb() -> bytes:
    """Return a PNG of a few KB with 144 million pixels."""
    file = io.BytesIO()
    Image.new("1", (12_000, 12_000)).save(file, "PNG")
    return file.getvalue()


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (b"no picture", "the data is not a PNG, JPEG, WebP, GIF or BMP image"),
        (b"<svg></svg>", "SVG is not read"),
        (picture(64, 64)[:60], "the image is broken"),
        (promising_png(64, 64), "the image is broken"),
        (promising_png(60_000, 60_000), "60000 x 60000 pixels"),
        (bomb, "12000 x 12000 pixels"),
        (picture(3000, 1), "too narrow"),
    ],
)
def test_what_is_no_picture_is_refused(
    drawing: Drawing, image: bytes | Callable[[], bytes], message: str
) -> None:
    sent = image() if callable(image) else image

    async def scenario(drawn: Drawn) -> None:
        before = drawn.servable.pids[0]
        with pytest.raises(RequestError) as caught:
            await drawn.edit(sent, prompt="a")
        assert str(caught.value).startswith("Image parsing failed: ")
        assert message in str(caught.value)
        assert caught.value.param == "image"
        with pytest.raises(RequestError) as caught:
            await drawn.edit(picture(64, 64), sent, prompt="a")
        assert caught.value.param == "mask"
        assert len(pictures(await drawn.generate(prompt="still there"))) == 1
        assert drawn.servable.pids[0] == before

    drawing(scenario)


def test_a_failure_of_the_library_is_one_error(tmp_path: Path) -> None:
    async def scenario(drawn: Drawn) -> None:
        before = drawn.servable.pids[0]
        request = text_request("a", drawn.servable.rules)
        # More steps than the scheduler has are refused before they get there.
        wrong = replace(request, parameters={**request.parameters, "num_inference_steps": 1001})
        with pytest.raises(RequestError, match="Error during images generation") as caught:
            async for _ in drawn.servable.begin(wrong):
                pass
        assert caught.value.code is Code.INTERNAL
        with pytest.raises(RequestError, match="greater than maxNumInferenceSteps: 1000"):
            await drawn.generate(prompt="a", steps=1001)
        assert len(pictures(await drawn.generate(prompt="still there"))) == 1
        assert drawn.servable.pids[0] == before

    make_model(tmp_path, text=graph("max_num_inference_steps: 2000"))
    served(tmp_path, scenario)


@pytest.mark.parametrize(
    ("uri", "message", "code"),
    [
        ("/v3/images/generations", "Failed to parse JSON", Code.INVALID_ARGUMENT),
        ("/v3/images/edits", "Failed to parse multipart data", Code.INVALID_ARGUMENT),
        ("/v3/images/others", "Unsupported URI: /v3/images/others", Code.NOT_FOUND),
        ("/v3/chat/completions", "Unsupported URI: /v3/chat/completions", Code.NOT_FOUND),
    ],
)
def test_a_path_needs_its_own_form_of_body(
    drawing: Drawing, uri: str, message: str, code: Code
) -> None:
    async def scenario(drawn: Drawn) -> None:
        with pytest.raises(RequestError) as caught:
            await drawn.packets(HttpPayload(uri, {}, b"{"))
        assert message in str(caught.value)
        assert caught.value.code is code

    drawing(scenario)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGKILL, Code.UNAVAILABLE), (signal.SIGABRT, Code.INTERNAL)]
)
def test_a_death_is_one_error_and_a_restart(
    tmp_path: Path, number: signal.Signals, code: Code
) -> None:
    make_model(tmp_path, text=graph(LONG))

    async def scenario(drawn: Drawn) -> None:
        dying = asyncio.create_task(drawn.generate(prompt="a", steps=900, size="256x256"))
        waiting = asyncio.create_task(drawn.generate(prompt="b", steps=2))
        await drawn.until_a_step()
        pid = drawn.servable.pids[0]
        os.kill(pid, number)
        with pytest.raises(RequestError) as caught:
            await dying
        assert caught.value.code is code
        assert "while it drew this request" in str(caught.value)
        assert len(pictures(await waiting)) == 1
        assert drawn.servable.pids[0] != pid

    served(tmp_path, scenario)


# Queue --------------------------------------------------------------------------------------------


class LeavingClient:
    """A client that leaves when the test says so."""

    is_writable = True

    def __init__(self) -> None:
        self.is_disconnected = False
        self._callbacks: list[Callable[[], None]] = []

    def on_disconnect(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)

    async def writable(self) -> None:
        return

    def leave(self) -> None:
        self.is_disconnected = True
        for callback in self._callbacks:
            callback()


def test_a_client_that_leaves_ends_its_drawing_at_the_next_step(tmp_path: Path) -> None:
    make_model(tmp_path, text=graph(LONG))

    async def scenario(drawn: Drawn) -> None:
        client = LeavingClient()
        body = {"prompt": "a", "steps": 900, "size": "256x256"}
        payload = HttpPayload("/v3/images/generations", {}, b"", body, client)
        left = asyncio.create_task(drawn.packets(payload))
        never_begun = LeavingClient()
        payload = HttpPayload("/v3/images/generations", {}, b"", body, never_begun)
        waiting = asyncio.create_task(drawn.packets(payload))
        await drawn.until_a_step()
        never_begun.leave()
        client.leave()
        for each in (left, waiting):
            with pytest.raises(BaseException):  # noqa: B017
                await each
        assert (await drawn.until_a_step()).step < 900
        pid = drawn.servable.pids[0]
        assert len(pictures(await drawn.generate(prompt="b", steps=2))) == 1
        assert drawn.servable.pids[0] == pid

    served(tmp_path, scenario)


def test_a_cancelled_run_ends_its_drawing(tmp_path: Path) -> None:
    make_model(tmp_path, text=graph(LONG))

    async def scenario(drawn: Drawn) -> None:
        task = asyncio.create_task(drawn.generate(prompt="a", steps=900, size="256x256"))
        await drawn.until_a_step()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(pictures(await drawn.generate(prompt="b", steps=2))) == 1

    served(tmp_path, scenario)


# Other models -------------------------------------------------------------------------------------


def test_a_latent_consistency_model_draws_in_few_steps(tmp_path: Path) -> None:
    make_model(tmp_path, "lcm", graph("default_num_inference_steps: 4"))

    async def scenario(drawn: Drawn) -> None:
        answer = await drawn.generate(prompt="a", seed=1, guidance_scale=1)
        assert pictures(answer)[0].shape == (SIDE, SIDE, 3)
        with pytest.raises(RequestError, match="negative_prompt is not used by this model"):
            await drawn.generate(prompt="a", negative_prompt="b")
        edited = await drawn.edit(picture(SIDE, SIDE), prompt="a", steps=4, strength=0.5)
        assert len(pictures(edited)) == 1

    served(tmp_path, scenario)


def test_a_static_shape_is_compiled(tmp_path: Path) -> None:
    options = 'resolution: "64x128" num_images_per_prompt: 2 guidance_scale: 4'
    make_model(tmp_path, text=graph(f"default_num_inference_steps: 2 {options}"))

    async def scenario(drawn: Drawn) -> None:
        answer = await drawn.generate(prompt="a", seed=1)
        assert [each.shape for each in pictures(answer)] == [(128, 64, 3)] * 2
        with pytest.raises(RequestError, match="doesn't match underlying model shape"):
            await drawn.generate(prompt="a", n=1)
        with pytest.raises(RequestError, match="is not supported by static reshape settings"):
            await drawn.generate(prompt="a", size="64x64")

    served(tmp_path, scenario)


def test_a_model_without_an_encoder_of_images_draws_from_texts_only(tmp_path: Path) -> None:
    make_model(tmp_path, text=graph())
    for file in (tmp_path / "vae_encoder").iterdir():
        file.unlink()
    (tmp_path / "vae_encoder").rmdir()

    async def scenario(drawn: Drawn) -> None:
        assert len(pictures(await drawn.generate(prompt="a"))) == 1
        for mask, name in ((None, "Image-to-image"), (picture(64, 64), "Inpainting")):
            with pytest.raises(RequestError, match=f"{name} pipeline is not available") as caught:
                await drawn.packets(edit_payload(picture(64, 64), mask, prompt="a"))
            assert caught.value.code is Code.FAILED_PRECONDITION

    served(tmp_path, scenario)


def test_the_compiled_models_are_kept_for_the_next_start(tmp_path: Path) -> None:
    make_model(tmp_path / "model", text=graph())
    cache = tmp_path / "cache"
    found: list[Pixels] = []

    async def scenario(drawn: Drawn) -> None:
        found.extend(pictures(await drawn.generate(prompt="a", seed=1)))

    def written() -> list[tuple[str, int]]:
        return sorted((file.name, file.stat().st_mtime_ns) for file in cache.rglob("*.blob"))

    served(tmp_path / "model", scenario, GraphSettings(cache_dir=str(cache)))
    kept = written()
    assert len(kept) >= 4  # text encoder, denoiser, and the two parts of the image coder
    served(tmp_path / "model", scenario, GraphSettings(cache_dir=str(cache)))
    assert written() == kept
    assert same(*found)


def adapted(tmp_path: Path, mode: str = "DYNAMIC", composite: str = "") -> Path:
    tmp_path.mkdir(exist_ok=True)
    for seed, name in enumerate(("ink", "oil")):
        write_lora(tmp_path / f"{name}.safetensors", seed)
    adapters = " ".join(
        f'lora_adapters {{ alias: "{name}" path: "{name}.safetensors" alpha: 0.5 mode: {mode} }}'
        for name in ("ink", "oil")
    )
    return make_model(
        tmp_path, text=graph(f"default_num_inference_steps: 2 {adapters} {composite}")
    )


def test_the_name_of_an_adapter_is_a_models_name(tmp_path: Path) -> None:
    composite = (
        'composite_lora_adapters { alias: "both" components { adapter_alias: "ink" } '
        'components { adapter_alias: "oil" alpha: 0.5 } }'
    )
    adapted(tmp_path, composite=composite)

    async def scenario(drawn: Drawn) -> None:
        async def drew(**body: Any) -> Pixels:
            (image,) = pictures(await drawn.generate(prompt="a cat", seed=1, **body))
            return image

        base, ink, oil, both = [await drew(model=name) for name in ("base", "ink", "oil", "both")]
        assert len({each.tobytes() for each in (base, ink, oil, both)}) == 4
        assert same(await drew(model="base", lora_alphas={"ink": 0.5}), ink)
        assert same(await drew(model="ink", lora_alphas={"ink": 0}), base)
        assert same(await drew(model="base", lora_alphas={"ink": 1, "oil": 0.5}), both)
        assert same(await drew(model="base"), base)

    served(tmp_path, scenario)


def test_fused_adapters_are_a_part_of_the_model(drawing: Drawing, tmp_path: Path) -> None:
    found: list[Pixels] = []

    async def scenario(drawn: Drawn) -> None:
        (image,) = pictures(await drawn.generate(prompt="a cat", seed=1))
        found.append(image)

    drawing(scenario)
    served(adapted(tmp_path / "fused", "FUSE"), scenario)
    served(adapted(tmp_path / "static", "STATIC"), scenario)
    assert not same(found[0], found[1])
    assert not same(found[0], found[2])


@pytest.mark.parametrize("part", ["unet", "text_encoder", "vae_decoder"])
def test_a_model_without_a_part_fails_its_load(tmp_path: Path, part: str) -> None:
    make_model(tmp_path, text=graph())
    (tmp_path / part / "openvino_model.xml").unlink()
    with pytest.raises(ResourceError, match="the model cannot be loaded") as caught:
        asyncio.run(load_graph(find_graph(tmp_path), REGISTRY))
    assert str(tmp_path) not in str(caught.value)


# The node -----------------------------------------------------------------------------------------


def test_a_node_turns_prompts_into_image_frames(tmp_path: Path) -> None:
    make_model(tmp_path)

    async def run() -> list[Any]:
        plan = plan_of(NODE_GRAPH)
        resources = await make_resources(plan, ResourceSettings(tmp_path), REGISTRY)
        frames: list[Any] = []
        try:
            graph = CalculatorGraph(validated_graph=plan)
            graph.observe_output_stream("image", lambda _, packet: frames.append(packet))
            await graph.start_run_async(dict(resources.side_packets))
            for time, prompt in enumerate(("a cat", "a dog")):
                await graph.add_packet_to_input_stream_async("prompt", prompt, time)
            graph.close_all_input_streams()
            await graph.wait_until_done_async()
        finally:
            await resources.close()
        return frames

    first, second = asyncio.run(asyncio.wait_for(run(), PATIENCE))
    assert (first.timestamp.value, second.timestamp.value) == (0, 1)
    frame = first.payload
    assert isinstance(frame, ImageFrame)
    assert (frame.image_format, frame.width, frame.height) == (ImageFormat.SRGB, SIDE, SIDE)
    assert frame != second.payload
