import { expect, test } from "vitest"
import { sharedBeginnings, told } from "../../src/graph/paint/text"
import { begun, fit } from "../../src/graph/viewport"

/** A canvas whose letters are all one unit wide. */
function canvas(): CanvasRenderingContext2D {
  const measureText = (text: string) => ({ width: text.length })
  return { font: "", measureText } as unknown as CanvasRenderingContext2D
}

function shown(titles: string[], room: number): string[] {
  const shared = sharedBeginnings(titles)
  return titles.map((title) => told(canvas(), title, room, shared.get(title)!))
}

test("names that end otherwise keep their ends", () => {
  expect(shown(["detection_branch_left", "detection_branch_right"], 12)).toEqual([
    "detect…left",
    "detec…right",
  ])
  expect(shown(["FlowLimiter_1", "FlowLimiter_2", "FlowLimiter_12"], 8)).toEqual([
    "FlowL…1",
    "FlowL…2",
    "Flow…12",
  ])
})

test("names that differ at their beginnings, or have room, are as they were", () => {
  expect(shown(["classification", "segmentation"], 8)).toEqual(["classif…", "segment…"])
  expect(shown(["branch_left", "branch_right"], 20)).toEqual(["branch_left", "branch_right"])
  expect(shown(["alone_in_the_graph"], 10)).toEqual(["alone_in_…"])
})

test("a small graph fills the canvas, a large one begins where it can be read", () => {
  const screen = { width: 1440, height: 800 }
  const small = { width: 540, height: 100, nodes: [{ x: 0, y: 0, width: 100 }] }
  expect(begun(small, screen).k * small.width).toBeGreaterThan(0.7 * screen.width)
  const phone = { width: 390, height: 600 }
  const large = { width: 900, height: 20_000, nodes: [{ x: 700, y: 10, width: 80 }] }
  const { k, x, y } = begun(large, phone)
  expect(k).toBeGreaterThan(0.5)
  expect(740 * k + x).toBeCloseTo(195)
  expect(10 * k + y).toBeCloseTo(24)
  expect(fit(large, phone).k).toBeLessThan(0.1)
})
