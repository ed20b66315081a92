import { describe, expect, test } from "vitest"
import { offersAt, type Known } from "../../src/editor/completions"
import {
  calculatorsIn,
  messageAt,
  nodeAround,
  producedNames,
  readDraft,
  valueOf,
} from "../../src/editor/draft"
import type { CalculatorView } from "../../src/live_types"

const port = (field: string, tag: string, type: string) => ({
  field,
  tag,
  index: 0,
  name: tag.toLowerCase(),
  type,
  is_optional: false,
  is_multiple: false,
  doc: "",
})

const VIEW: CalculatorView = {
  name: "ScaleCalculator",
  summary: "",
  doc: "",
  place: "",
  ports: [port("input_stream", "IMAGE", "image"), port("output_stream", "SCALED", "image")],
  options: [
    {
      message_type: "mediapipe.ScaleOptions",
      fields: [
        { name: "width", type: "int32", default: "0", doc: "In pixels.", required: false },
        { name: "mode", type: "FIT | STRETCH", default: null, doc: "", required: false },
        { name: "flip", type: "bool", default: "false", doc: "", required: false },
      ],
    },
  ],
  timestamp_offset: 0,
  process_timestamp_bounds: false,
  input_stream_handler: "",
  snippet: "",
}

const KNOWN: Known = {
  calculators: [
    { name: "ScaleCalculator", summary: "Scales." },
    { name: "GateCalculator", summary: "" },
  ],
  subgraphs: ["Detect"],
  view: (name) => (name === "ScaleCalculator" ? VIEW : undefined),
}

/** The offers at the sign | of a text. */
function offers(marked: string) {
  const offset = marked.indexOf("|")
  const text = marked.replace("|", "")
  const found = offersAt(text, readDraft(text), offset, KNOWN)
  return found && { from: found.from - offset, labels: found.offers.map(({ label }) => label) }
}

const GRAPH = `input_stream: "frames"
node { calculator: "GateCalculator" input_stream: "frames" output_stream: "OUT:let_through" }
node { calculator: "ScaleCalculator" `

describe("offers", () => {
  test("calculators and subgraphs, inside the quotes", () => {
    expect(offers('node { calculator: "Sc|"')).toEqual({
      from: -2,
      labels: ["ScaleCalculator", "GateCalculator", "Detect"],
    })
  })
  test("tags of the calculator and streams of the file", () => {
    expect(offers(`${GRAPH} input_stream: "|`)?.labels).toEqual(["IMAGE:", "frames", "let_through"])
    expect(offers(`${GRAPH} output_stream: "|" }`)?.labels).toEqual(["SCALED:"])
  })
  test("streams only, after a tag", () => {
    expect(offers(`${GRAPH} input_stream: "IMAGE:|"`)).toEqual({
      from: 0,
      labels: ["frames", "let_through"],
    })
  })
  test("the calculator may stand behind the cursor", () => {
    expect(offers('node { input_stream: "|" calculator: "ScaleCalculator" }')?.labels).toEqual([
      "IMAGE:",
    ])
  })
  test("outputs that somebody waits for", () => {
    expect(offers('output_stream: "end" node { output_stream: "|" }')?.labels).toEqual(["end"])
  })
  test("fields of the graph and of a node", () => {
    expect(offers("|")?.labels).toContain("num_threads")
    expect(offers("node { inp|")).toMatchObject({ from: -3 })
    expect(offers("node { inp|")?.labels).toContain("max_in_flight")
    expect(offers("node { inp|")?.labels).not.toContain("num_threads")
  })
  test("the type of options, their fields and values", () => {
    expect(offers(`${GRAPH} node_options { [|`)?.labels).toEqual([
      "[type.googleapis.com/mediapipe.ScaleOptions]",
    ])
    const inside = `${GRAPH} node_options { [type.googleapis.com/mediapipe.ScaleOptions] {`
    expect(offers(`${inside} |`)?.labels).toEqual(["width", "mode", "flip"])
    expect(offers(`${inside} mode: |`)?.labels).toEqual(["FIT", "STRETCH"])
    expect(offers(`${inside} flip: t|`)).toEqual({ from: -1, labels: ["true", "false"] })
    expect(offers(`${GRAPH} options { [mediapipe.ScaleOptions.ext] { w| } }`)?.labels).toEqual([
      "width",
      "mode",
      "flip",
    ])
  })
  test("nothing in comments, and nothing about numbers", () => {
    expect(offers("# node { |")).toBeNull()
    expect(offers("num_threads: |")).toBeNull()
  })
})

describe("unfinished texts", () => {
  test("a string ends with its line", () => {
    const root = readDraft('node { calculator: "Sca\n input_stream: "a"\n}\nnode { name: "b" }')
    expect(root.statements.map(({ name }) => name)).toEqual(["node", "node"])
    expect(producedNames(root, false)).toEqual([])
    expect(calculatorsIn(root)).toEqual(["Sca"])
  })
  test("braces too many or too few break nothing", () => {
    const root = readDraft("} node { node_options { [a.b] { x: 1")
    const inner = messageAt(root, 33)
    expect(inner.name).toBe("[a.b]")
    expect(valueOf(inner, "x")).toBe("1")
    expect(nodeAround(inner)?.name).toBe("node")
  })
  test("braces and quotes in strings and comments are text", () => {
    const root = readDraft(`node { # } "\n name: "}{" input_stream: 'x' }`)
    expect(root.statements).toHaveLength(1)
    expect(valueOf(root.statements[0]!.message!, "name")).toBe("}{")
  })
})
