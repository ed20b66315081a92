import { expect, test } from "vitest"
import { jsonFault, misfits, schemaFault } from "../../src/playground/json"

const SCHEMA = JSON.stringify({
  type: "object",
  properties: { name: { type: "string" }, age: { type: "integer", minimum: 0 } },
  required: ["name"],
})

test("a mistake in JSON has a place", () => {
  expect(jsonFault('{"a": 1,\n "b": }')).toMatchObject({ line: 2, column: 7 })
  expect(jsonFault('{"a": 1')).toMatchObject({ line: 1, column: 8 })
  expect(jsonFault("")).toBeNull()
  expect(jsonFault("[1]")).toBeNull()
})

test("a schema names types that exist", () => {
  expect(schemaFault(SCHEMA)).toBeNull()
  expect(schemaFault('{"properties": {"a": {"type": "text"}}}')?.message).toContain(
    'a: "type" is "text"',
  )
  expect(schemaFault("[1]")?.message).toBe("the schema must be an object")
})

test("an answer is held against its schema", () => {
  expect(misfits('{"name": "Ada", "age": 36}', SCHEMA)).toEqual([])
  expect(misfits('{"name": "Ada", "age": -1}', SCHEMA)[0]).toBe(
    "age must be greater than or equal to 0.",
  )
  expect(misfits('{"age": 1}', SCHEMA)[0]).toBe('The answer requires property "name".')
  expect(misfits('{"name": "Ad', SCHEMA)[0]).toContain("not JSON")
})
