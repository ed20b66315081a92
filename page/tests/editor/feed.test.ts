import { expect, test } from "vitest"
import { fieldFault, fieldsOf, packetsFrom, sampleOf, sidePacketsFrom } from "../../src/editor/feed"
import { callsIn } from "../../src/editor/trace"

const FIELDS = fieldsOf({
  inputs: [
    { name: "a", type: "int" },
    { name: "b", type: "string" },
  ],
  input_side_packets: [{ name: "limit", type: "int" }],
})

test("the inputs of a description become fields", () => {
  expect(FIELDS.map(({ name, isSide }) => [name, isSide])).toEqual([
    ["a", false],
    ["b", false],
    ["limit", true],
  ])
  expect(fieldsOf(null)).toEqual([])
  expect(FIELDS.map(sampleOf)).toEqual(["1\n2\n3", '"first"\n"second"\n"third"', "1\n2\n3"])
})

test("the packets of a line go together, and empty lines are left out", () => {
  const texts = { a: "1\n\n3", b: '"x"\n"y"', limit: "5" }
  expect(packetsFrom(FIELDS, texts)).toEqual([
    { stream: "a", ts: 0, value: 1 },
    { stream: "b", ts: 0, value: "x" },
    { stream: "b", ts: 1, value: "y" },
    { stream: "a", ts: 2, value: 3 },
  ])
  expect(sidePacketsFrom(FIELDS, texts)).toEqual({ limit: 5 })
})

test("a wrong packet is named by its line", () => {
  expect(fieldFault(FIELDS[0]!, "1\ntwo")).toMatch(/^Line 2: /)
  expect(fieldFault(FIELDS[0]!, "1\n\n2")).toBe("")
})

test("a trace becomes the calls of each node", () => {
  const events = [
    { ph: "M", name: "process_name", args: { name: "graphrt" } },
    { ph: "X", name: "b.process", ts: 30, dur: 5 },
    { ph: "X", name: "a.open", ts: 10, dur: 2 },
    { ph: "s", name: "stream", ts: 12 },
    { ph: "X", name: "a.process", ts: 20, dur: 4 },
  ]
  expect(callsIn({ traceEvents: events })).toEqual([
    [
      "a",
      [
        { began: 0, took: 2, name: "open" },
        { began: 10, took: 4, name: "process" },
      ],
    ],
    ["b", [{ began: 20, took: 5, name: "process" }]],
  ])
  expect(callsIn(null)).toEqual([])
})
