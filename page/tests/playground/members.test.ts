import { describe, expect, test } from "vitest"
import {
  boundsOf,
  memberFrom,
  membersAt,
  typedValue,
  type Document,
  type Member,
  type Schema,
} from "../../src/playground/members"

const member = (schema: Schema, name = "m") => memberFrom(name, schema) as Member

test("members come from the server's document, without those that change nothing", () => {
  const document: Document = {
    paths: {
      "/v3/chat/completions": {
        post: {
          requestBody: {
            content: { "application/json": { schema: { $ref: "#/components/schemas/Body" } } },
          },
        },
      },
    },
    components: {
      schemas: {
        Body: {
          properties: {
            model: { type: "string" },
            temperature: { type: ["number", "null"], minimum: 0, maximum: 2 },
            store: { description: "Without effect: it is kept elsewhere." },
            suffix: { enum: [null, false, "", []], description: "It is not supported." },
            tools: { type: ["array", "null"], items: { $ref: "#/components/schemas/Tool" } },
            stop: {
              anyOf: [
                { type: "string" },
                { type: "array", items: { type: "string" } },
                { type: "null" },
              ],
            },
            verbosity: { type: ["string", "null"], enum: ["low", "high", null] },
            ignore_eos: { type: ["boolean", "null"] },
          },
        },
      },
    },
  }
  const found = membersAt(document, "/chat/completions", ["model"])
  expect(found.map(({ name, kind }) => [name, kind])).toEqual([
    ["temperature", "number"],
    ["stop", "list"],
    ["verbosity", "choice"],
    ["ignore_eos", "boolean"],
  ])
  expect(membersAt(document, "/rerank", [])).toEqual([])
})

test.each([
  [{ type: "number", minimum: 0, maximum: 2 }, "0 to 2"],
  [{ type: "number", minimum: 0, exclusiveMaximum: 1 }, "0, below 1"],
  [{ type: "number", exclusiveMinimum: 0, maximum: 10 }, "above 0, at most 10"],
  [{ type: "number", exclusiveMinimum: 0, maximum: 3.4e38 }, "above 0"],
  [{ type: "integer", minimum: 1, maximum: 2147483647 }, "1 or more"],
  [{ type: "integer" }, ""],
])("bounds in words: %j", (schema, words) => {
  expect(boundsOf(member(schema))).toBe(words)
})

describe("typed values", () => {
  const temperature = member({ type: ["number", "null"], minimum: 0, maximum: 2 })
  const seed = member({ type: "integer", minimum: 0 })
  const stops = member({ type: "array", items: { type: "string" } }, "stop")
  const ids = member({ type: "array", items: { type: "integer" } }, "stop_token_ids")

  test.each([
    [temperature, "", { value: undefined }],
    [temperature, "0.7", { value: 0.7 }],
    [temperature, "0,7", { value: 0.7 }],
    [temperature, "2.1", { wrong: "0 to 2" }],
    [temperature, "hot", { wrong: "a number" }],
    [seed, "1.5", { wrong: "a whole number" }],
    [seed, "-1", { wrong: "0 or more" }],
    [stops, "END\n\n two", { value: ["END", " two"] }],
    [ids, "5\n7", { value: [5, 7] }],
    [member({ type: "boolean" }), "false", { value: false }],
  ])("%j typed as %j", (typed, text, value) => {
    expect(typedValue(typed, text)).toEqual(value)
  })
})
