import { expect, test } from "vitest"
import {
  boxesFrom,
  drawingsOf,
  labelsFor,
  pictureAxes,
  pictureTensor,
  pointsFrom,
  type Tensor,
} from "../../src/playground/tensors/tensors"
import { PcmReader, wavFile } from "../../src/playground/sound/wav"
import { linesOf, similarities } from "../../src/playground/texts/vectors"

const tensor = (shape: number[], data: Tensor["data"], datatype = "FP32"): Tensor => ({
  name: "t",
  datatype,
  shape,
  data,
})
const SIZE = { width: 100, height: 50 }

test.each([
  ["UINT8", [-1, -1, -1], { height: 0, width: 0, channels: 3, isChannelFirst: false }],
  ["FP32", [1, 96, 96, 3], { height: 96, width: 96, channels: 3, isChannelFirst: false }],
  ["FP32", [1, 3, 224, 224], { height: 224, width: 224, channels: 3, isChannelFirst: true }],
  ["UINT8", [28, 28, 1], { height: 28, width: 28, channels: 1, isChannelFirst: false }],
  ["FP32", [8, 3, 224, 224], null],
  ["FP32", [1, 1000], null],
  ["BYTES", [1, 96, 96, 3], null],
])("%s %j as a picture", (datatype, shape, axes) => {
  expect(pictureAxes({ name: "t", datatype, shape })).toEqual(axes)
})

test("pixels go into the order and range of the model", () => {
  const pixels = {
    width: 2,
    height: 1,
    data: new Uint8ClampedArray([255, 0, 51, 255, 0, 255, 0, 255]),
  }
  const spec = { name: "t", datatype: "FP32", shape: [1, 3, -1, -1] }
  const made = pictureTensor(spec, pictureAxes(spec)!, pixels, "-1 to 1")
  expect(made.shape).toEqual([1, 3, 1, 2])
  expect(made.data.map((value) => Number(value).toFixed(1))).toEqual([
    "1.0",
    "-1.0",
    "-1.0",
    "1.0",
    "-0.6",
    "-1.0",
  ])
})

test("the ways to draw an output follow from its shape", () => {
  expect(drawingsOf(tensor([2, 4], Array(8).fill(0)))[0]).toBe("boxes")
  expect(drawingsOf(tensor([1, 360, 4], Array(1440).fill(0)))).toEqual(["figures"])
  expect(drawingsOf(tensor([1, 468, 3], Array(1404).fill(0)))[0]).toBe("points")
  expect(drawingsOf(tensor([1, 21, 3], Array(63).fill(0)))[0]).toBe("points")
  expect(drawingsOf(tensor([1, 1000], Array(1000).fill(0)))[0]).toBe("bars")
  expect(drawingsOf(tensor([2], ["a", "b"], "BYTES"))).toEqual(["texts"])
  expect(drawingsOf(tensor([8, 8, 3], Array(192).fill(0), "UINT8"))[0]).toBe("picture")
})

test("boxes of any order become fractions of the picture", () => {
  const one = (data: number[]) => tensor([1, 4], data)
  const box = { left: 0.1, top: 0.2, right: 0.5, bottom: 0.6, label: "" }
  expect(boxesFrom(one([0.2, 0.1, 0.6, 0.5]), "y x y x", [], SIZE)).toEqual([box])
  expect(boxesFrom(one([10, 10, 50, 30]), "x y x y", [], SIZE)).toEqual([box])
  expect(boxesFrom(one([10, 10, 40, 20]), "x y w h", [], SIZE)).toEqual([box])
  const ssd = tensor([1, 1, 2, 7], [0, 5, 0.9, 0.1, 0.2, 0.5, 0.6, -1, 0, 0, 0, 0, 0, 0])
  expect(boxesFrom(ssd, "y x y x", [], SIZE)).toEqual([{ ...box, label: "5 0.90" }])
})

test("boxes take their words from the tensors beside them", () => {
  const boxes = tensor([2, 4], Array(8).fill(0))
  const all = [boxes, tensor([2], [0.9, 0.5]), tensor([2], ["cat", "dog"], "BYTES")]
  expect(labelsFor(boxes, all)).toEqual(["cat 0.90", "dog 0.50"])
})

test("points may be fractions or pixels", () => {
  expect(pointsFrom(tensor([1, 2, 2], [50, 25, 100, 50]), SIZE)).toEqual([
    { x: 0.5, y: 0.5 },
    { x: 1, y: 1 },
  ])
})

test("samples in odd pieces are read whole", () => {
  const reader = new PcmReader()
  const pieces = [Uint8Array.of(0, 64, 0), Uint8Array.of(192), Uint8Array.of()]
  expect(pieces.map((piece) => [...reader.read(piece)])).toEqual([[0.5], [-0.5], []])
})

test("a WAV file says what is in it", async () => {
  const bytes = new DataView(await wavFile(Float32Array.of(0, 1, -2), 16000).arrayBuffer())
  expect(bytes.byteLength).toBe(50)
  expect(bytes.getUint32(24, true)).toBe(16000)
  expect([44, 46, 48].map((at) => bytes.getInt16(at, true))).toEqual([0, 32767, -32767])
})

test("cosines of all pairs", () => {
  expect(
    similarities([
      [2, 0],
      [0, 3],
      [0, 0],
    ]),
  ).toEqual([
    [1, 0, 0],
    [0, 1, 0],
    [0, 0, 0],
  ])
  expect(linesOf(" a \n\n b")).toEqual(["a", "b"])
})
