import { describe, expect, it } from "vitest"
import { readDraft } from "../../src/editor/draft"
import {
  connected,
  endAdded,
  fieldKind,
  furtherPorts,
  named,
  nodeAdded,
  nodesOf,
  optionSet,
  optionText,
  portAdded,
  removed,
  renamed,
  unusedNames,
  type Change,
} from "../../src/editor/edits"
import type { CalculatorView, OptionField } from "../../src/live_types"

const TEXT = `# Above all.
input_stream: "in"  # the input
output_stream: "out"

# The first node.
node {
  calculator: "A"  # of ours
  input_stream: "TAG:0:in"
  output_stream: "mid"
  node_options { [type.googleapis.com/x.Options] { size: 1 } }
}

# The second node.
node {
  calculator: "B"
  input_stream: "mid"
  output_stream: "out"
}
`
const PLACES = { a: { line: 6, column: 1 }, b: { line: 14, column: 1 } }
const root = readDraft(TEXT)
const nodes = nodesOf(root, PLACES)!

function changed(change: Change | null, text = TEXT): string {
  if (!change) return text
  return text.slice(0, change.from) + change.insert + text.slice(change.to)
}

function view(snippet: string): CalculatorView {
  return { name: "C", snippet } as CalculatorView
}

function option(type: string): OptionField {
  return { name: "x", type, default: null, doc: "", required: false }
}

describe("changes of a text by the drawing", () => {
  it("finds nodes by their places, in the order of the text", () => {
    expect([...nodes].map(([name, node]) => [name, node.message?.statements[0]?.value])).toEqual([
      ["a", "A"],
      ["b", "B"],
    ])
    expect(nodesOf(root, { a: PLACES.a })).toBeNull()
  })

  it("changes only the name of the stream", () => {
    const input = nodes.get("a")!.message!.statements.find(({ name }) => name === "input_stream")!
    expect(changed(connected(input, "other"))).toBe(TEXT.replace('"TAG:0:in"', '"TAG:0:other"'))
  })

  it("removes a node with its lines, and no comment", () => {
    const text = changed(removed(TEXT, nodes.get("a")!))
    expect(text).toBe(TEXT.replace(/node \{\n {2}calculator: "A"[^]*?\n\}\n/, ""))
    expect(text).toContain("# The first node.")
    const input = nodes.get("b")!.message!.statements[1]!
    expect(changed(removed(TEXT, input))).toBe(TEXT.replace('  input_stream: "mid"\n', ""))
  })

  it("removes a statement from the middle of a line", () => {
    const text = 'node { calculator: "A" input_stream: "in" }'
    const node = readDraft(text).statements[0]!.message!
    expect(changed(removed(text, node.statements[1]!), text)).toBe('node { calculator: "A" }')
  })

  it("adds a node whose streams have names of their own", () => {
    const snippet =
      'node {\n  calculator: "C"\n  input_stream: "LOOP:mid"\n  input_stream: "T:in"\n  output_stream: "LOOP:mid"\n}\n'
    expect(changed(nodeAdded(TEXT, root, view(snippet)))).toBe(
      `${TEXT}\n${snippet.replaceAll("mid", "mid_2").replace("T:in", "T:in_2")}`,
    )
    expect(changed(nodeAdded("", readDraft(""), view("")), "")).toBe(
      'node {\n  calculator: "C"\n}\n',
    )
  })

  it("adds inputs and outputs after those that are there, and after their comments", () => {
    expect(changed(endAdded(TEXT, root, "input_stream"))).toBe(
      TEXT.replace("# the input\n", '# the input\ninput_stream: "input"\n'),
    )
    const bare = '# About.\n\nnode { calculator: "A" }\n'
    expect(changed(endAdded(bare, readDraft(bare), "output_stream"), bare)).toBe(
      '# About.\n\noutput_stream: "output"\nnode { calculator: "A" }\n',
    )
  })

  it("sets, changes and leaves out an option", () => {
    const a = nodes.get("a")!.message!
    expect(changed(optionSet(TEXT, a, "x.Options", "size", "2"))).toBe(
      TEXT.replace("size: 1", "size: 2"),
    )
    expect(changed(optionSet(TEXT, a, "x.Options", "size", null))).toBe(
      TEXT.replace("size: 1 ", ""),
    )
    expect(changed(optionSet(TEXT, a, "x.Options", "name", '"n"'))).toBe(
      TEXT.replace("size: 1 }", 'size: 1 name: "n" }'),
    )
    const b = nodes.get("b")!.message!
    expect(changed(optionSet(TEXT, b, "y.Options", "on", "true"))).toBe(
      TEXT.replace(
        /( {2}input_stream: "mid"\n {2}output_stream: "out"\n)/,
        "$1  node_options {\n    [type.googleapis.com/y.Options] {\n      on: true\n    }\n  }\n",
      ),
    )
  })

  it("takes values of a field's kind only", () => {
    expect(fieldKind(option("repeated int32"))).toBeNull()
    expect(fieldKind(option("FIT | STRETCH"))).toBe("choice")
    expect(optionText(option("int32"), " 12 ")).toBe("12")
    expect(optionText(option("int32"), "1.5")).toBeNull()
    expect(optionText(option("uint32"), "-1")).toBeNull()
    expect(optionText(option("float"), "1e-3")).toBe("1e-3")
    expect(optionText(option("float"), "much")).toBeNull()
    expect(optionText(option("string"), 'say "yes"')).toBe('"say \\"yes\\""')
  })

  it("renames a stream wherever it is used, and nothing else", () => {
    const text = renamed(root, "mid", "middle", false)
      .reverse()
      .reduce((before, change) => changed(change, before), TEXT)
    expect(text).toBe(TEXT.replaceAll('"mid"', '"middle"'))
    expect(renamed(root, "mid", "middle", true)).toEqual([])
    expect(unusedNames(root, ["mid", "new"])).toEqual(["mid_2", "new"])
  })

  it("names a node", () => {
    const a = nodes.get("a")!.message!
    expect(changed(named(TEXT, a, "first"))).toBe(
      TEXT.replace('  calculator: "A"', '  name: "first"\n  calculator: "A"'),
    )
    const text = 'node { name: "a" calculator: "A" }'
    const node = readDraft(text).statements[0]!.message!
    expect(changed(named(text, node, "b"), text)).toBe('node { name: "b" calculator: "A" }')
  })

  it("offers the ports that a node does not have yet, and adds them", () => {
    const port = (tag: string, isMultiple = false) =>
      ({ field: "input_stream", tag, index: 0, name: "t", is_multiple: isMultiple }) as never
    const a = nodes.get("a")!.message!
    const offered = furtherPorts(a, [port("TAG"), port("MORE"), port("TAG", true), port("")])
    expect(offered.map(({ prefix }) => prefix)).toEqual(["MORE:", "TAG:1:", ""])
    expect(changed(portAdded(TEXT, root, a, offered[1]!))).toBe(
      TEXT.replace('  input_stream: "TAG:0:in"\n', '$&  input_stream: "TAG:1:t"\n'),
    )
    const text = 'node { calculator: "A" input_stream: "in" }'
    const flat = readDraft(text)
    const node = flat.statements[0]!.message!
    expect(changed(portAdded(text, flat, node, furtherPorts(node, null)[0]!), text)).toBe(
      'node { calculator: "A" input_stream: "in" input_stream: "input" }',
    )
  })
})
