/** A tensor of a model, as its metadata names it. -1 in a shape: any length. */
export interface TensorSpec {
  name: string
  datatype: string
  shape: number[]
  optional?: boolean
}

/** A tensor of a request or an answer, its values in one list. */
export interface Tensor {
  name: string
  datatype: string
  shape: number[]
  data: (number | string | boolean)[]
}

/** How the axes of a picture stand in a tensor, if it may be one. */
export interface PictureAxes {
  /** 0 if any. */
  height: number
  width: number
  channels: 1 | 3 | 4
  isChannelFirst: boolean
}

/** The axes of a tensor that may hold a picture; null if none may be. Unknown channels are 3. */
export function pictureAxes({ datatype, shape }: TensorSpec): PictureAxes | null {
  if (!/^(UINT8|INT32|FP16|FP32|FP64)$/.test(datatype)) return null
  const [batch, ...rest] = shape.length === 4 ? shape : [1, ...shape]
  if (rest.length !== 3 || (batch !== 1 && batch !== -1)) return null
  const [first, middle, last] = rest as [number, number, number]
  const channels = (value: number) => ([1, 3, 4] as const).find((one) => one === value)
  if (channels(last) ?? (last === -1 && !channels(first))) {
    const found = channels(last) ?? 3
    return { height: any(first), width: any(middle), channels: found, isChannelFirst: false }
  }
  const found = channels(first)
  return found
    ? { height: any(middle), width: any(last), channels: found, isChannelFirst: true }
    : null
}

function any(length: number): number {
  return Math.max(0, length)
}

export const RANGES = { "0 to 255": [0, 255], "0 to 1": [0, 1], "-1 to 1": [-1, 1] } as const
export type Range = keyof typeof RANGES

/** The values of a picture for a tensor. `pixels` has 4 bytes for each: red, green, blue, alpha. */
export function pictureTensor(
  spec: TensorSpec,
  axes: PictureAxes,
  pixels: { width: number; height: number; data: Uint8ClampedArray },
  range: Range,
): Tensor {
  const { width, height, data } = pixels
  const { channels, isChannelFirst } = axes
  const [low, high] = RANGES[range]
  const values = new Array<number>(width * height * channels)
  for (let at = 0; at < width * height; at += 1) {
    for (let channel = 0; channel < channels; channel += 1) {
      const byte = channels === 1 ? grey(data, at * 4) : data[at * 4 + channel]!
      const value = range === "0 to 255" ? byte : low + (byte / 255) * (high - low)
      const place = isChannelFirst ? channel * width * height + at : at * channels + channel
      values[place] = value
    }
  }
  const shape = isChannelFirst ? [channels, height, width] : [height, width, channels]
  return {
    name: spec.name,
    datatype: spec.datatype,
    shape: spec.shape.length === 4 ? [1, ...shape] : shape,
    data: values,
  }
}

function grey(data: Uint8ClampedArray, at: number): number {
  return Math.round(0.299 * data[at]! + 0.587 * data[at + 1]! + 0.114 * data[at + 2]!)
}

/** A tensor of zeros or empty texts to begin with; unknown lengths become 1. */
export function blankTensor({ name, datatype, shape }: TensorSpec): Tensor {
  const known = shape.map((length) => (length < 0 ? 1 : length))
  const size = known.reduce((product, length) => product * length, 1)
  const value = datatype === "BYTES" ? "" : datatype === "BOOL" ? false : 0
  return {
    name,
    datatype,
    shape: known,
    data: new Array<typeof value>(Math.min(size, 4096)).fill(value),
  }
}

export type Drawing = "picture" | "boxes" | "points" | "bars" | "texts" | "figures"

// More boxes are a detector's raw ones, before the best are chosen.
const MOST_BOXES = 100
const MOST_POINTS = 500

/** The ways to draw a tensor of an answer, the likeliest first. */
export function drawingsOf(tensor: Tensor): Drawing[] {
  const { datatype, shape, data } = tensor
  if (datatype === "BYTES") return ["texts"]
  const drawings: Drawing[] = []
  if (pictureAxes(tensor) && data.length >= 192 && datatype === "UINT8") drawings.push("picture")
  const last = shape.at(-1) ?? 0
  const rows = last ? data.length / last : 0
  if (shape.length >= 2 && rows >= 1) {
    const isBox = last === 4 || (last === 7 && shape.length === 4)
    if (isBox && rows <= MOST_BOXES) drawings.push("boxes")
    const isPoint = last === 2 || last === 3
    if (isPoint && rows >= 3 && rows <= MOST_POINTS) drawings.push("points")
  }
  if (data.length <= 1 || data.length === last) drawings.push("bars")
  return [...drawings, "figures"]
}

export interface Box {
  left: number
  top: number
  right: number
  bottom: number
  label: string
}

export const BOX_ORDERS = ["y x y x", "x y x y", "x y w h", "y x h w"] as const
export type BoxOrder = (typeof BOX_ORDERS)[number]

/**
 * Boxes of a tensor [..., n, 4], or of SSD's [1, 1, n, 7]: image, label, score, corners. Sides are
 * fractions of the picture; larger numbers are taken as pixels of its width and height.
 */
export function boxesFrom(
  tensor: Tensor,
  order: BoxOrder,
  labels: string[],
  picture: { width: number; height: number },
): Box[] {
  const isSsd = tensor.shape.at(-1) === 7
  const width = isSsd ? 7 : 4
  const rows = rowsOf(tensor, width)
  const isPixels = rows.some((row) => row.slice(-4).some((value) => Math.abs(value) > 4))
  const across = isPixels ? picture.width : 1
  const down = isPixels ? picture.height : 1
  return rows
    .filter((row) => !isSsd || row[0]! >= 0)
    .map((row, at) => {
      const corners = row.slice(-4) as [number, number, number, number]
      const [left, top, right, bottom] = isSsd ? corners : sides(corners, order)
      return {
        left: left / across,
        top: top / down,
        right: right / across,
        bottom: bottom / down,
        label: isSsd ? `${row[1]} ${row[2]!.toFixed(2)}` : (labels[at] ?? ""),
      }
    })
}

function sides([a, b, c, d]: [number, number, number, number], order: BoxOrder) {
  switch (order) {
    case "x y x y":
      return [a, b, c, d] as const
    case "y x y x":
      return [b, a, d, c] as const
    case "x y w h":
      return [a, b, a + c, b + d] as const
    case "y x h w":
      return [b, a, b + d, a + c] as const
  }
}

/** Points of a tensor [..., n, 2 or 3] as fractions of the picture. */
export function pointsFrom(
  tensor: Tensor,
  picture: { width: number; height: number },
): { x: number; y: number }[] {
  const rows = rowsOf(tensor, tensor.shape.at(-1)!)
  const isPixels = rows.some(([x, y]) => Math.max(Math.abs(x!), Math.abs(y!)) > 4)
  const [across, down] = isPixels ? [picture.width, picture.height] : [1, 1]
  return rows.map(([x, y]) => ({ x: x! / across, y: y! / down }))
}

function rowsOf({ data }: Tensor, width: number): number[][] {
  const rows: number[][] = []
  for (let at = 0; at + width <= data.length; at += width) {
    rows.push(data.slice(at, at + width).map(Number))
  }
  return rows
}

/** Words for boxes: texts and scores of other tensors that have one value for each. */
export function labelsFor(tensor: Tensor, all: Tensor[]): string[] {
  const count = tensor.data.length / (tensor.shape.at(-1) ?? 1)
  const beside = all.filter((one) => one !== tensor && one.data.length === count)
  const texts = beside.find(({ datatype }) => datatype === "BYTES")
  const scores = beside.find(({ datatype }) => datatype.startsWith("FP"))
  return Array.from({ length: count }, (_, at) =>
    [texts?.data[at], scores && Number(scores.data[at]).toFixed(2)].filter(Boolean).join(" "),
  )
}

/** The highest values of a tensor with their places, at most `most`. */
export function highest({ data }: Tensor, most: number): { name: string; value: number }[] {
  return data
    .map((value, at) => ({ name: `${at}`, value: Number(value) }))
    .sort((a, b) => b.value - a.value)
    .slice(0, most)
}

export function shapeText(shape: number[]): string {
  return `[${shape.map((length) => (length < 0 ? "?" : length)).join(", ")}]`
}
