import { expect, test } from "vitest"
import { kindsOf, servablesFrom } from "../../src/playground/servables"

const version = (state: string) => ({ model_version_status: [{ state }] })

test("the server's two lists are joined", () => {
  const found = servablesFrom(
    {
      data: [
        {
          id: "demo",
          object: "model",
          task: "text_generation",
          endpoints: ["/chat/completions", "/completions"],
          max_model_len: 2048,
        },
        { id: "own", object: "model" },
      ],
    },
    { demo: version("AVAILABLE"), own: version("LOADING"), shapes: version("AVAILABLE") },
  )
  expect(found.map(({ name, isReady }) => [name, isReady])).toEqual([
    ["demo", true],
    ["own", false],
    ["shapes", true],
  ])
  expect(found[0]!.facts).toEqual({ max_model_len: 2048 })
  const ids = found.map((one) => kindsOf(one).map(({ id }) => id))
  expect(ids).toEqual([["chat", "completion", "request"], ["request", "chat"], ["tensors"]])
})
