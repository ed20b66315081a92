import { expect, test } from "vitest"
import {
  newAnswer,
  ratesOf,
  timeToFirst,
  tokensPerSecond,
  withChunk,
  type Chunk,
} from "../../src/playground/chat/answer"

function told(...chunks: [number, Chunk][]) {
  return chunks.reduce((answer, [now, chunk]) => withChunk(answer, chunk, now), newAnswer(0))
}

const delta = (part: object, completion_tokens?: number): Chunk => ({
  choices: [{ index: 0, delta: part }],
  ...(completion_tokens === undefined ? {} : { usage: { completion_tokens } }),
})

test("text and reasoning grow apart", () => {
  const answer = told(
    [1, delta({ role: "assistant", content: "" })],
    [2, delta({ reasoning_content: "Let me " })],
    [3, delta({ reasoning_content: "see." })],
    [4, delta({ content: "Yes" })],
    [5, delta({ content: "." })],
  )
  expect([answer.reasoning, answer.text]).toEqual(["Let me see.", "Yes."])
})

test("the pieces of a sound are joined, and its transcript is the text of answers for ears", () => {
  const spoken = told(
    [1, delta({ content: "Hi", audio: { transcript: "Hi" } })],
    [2, delta({ audio: { data: "AAAA" } })],
    [3, delta({ audio: { data: "BBBB" } })],
  )
  expect([spoken.text, spoken.sound]).toEqual(["Hi", "AAAABBBB"])
  expect(told([1, delta({ audio: { transcript: "Hi" } })]).text).toBe("Hi")
})

test("the pieces of tool calls are joined by their index", () => {
  const answer = told(
    [1, delta({ tool_calls: [{ index: 0, id: "a", function: { name: "add", arguments: "" } }] })],
    [2, delta({ tool_calls: [{ index: 0, function: { arguments: '{"x":' } }] })],
    [3, delta({ tool_calls: [{ index: 1, id: "b", function: { name: "now", arguments: "{}" } }] })],
    [4, delta({ tool_calls: [{ index: 0, function: { arguments: "1}" } }] })],
  )
  expect(answer.tools).toEqual([
    { id: "a", name: "add", arguments: '{"x":1}' },
    { id: "b", name: "now", arguments: "{}" },
  ])
})

test("a whole answer is read like a stream of one event", () => {
  const answer = told([
    1,
    {
      choices: [{ message: { content: "Hi" }, finish_reason: "stop" }],
      usage: { prompt_tokens: 3, completion_tokens: 2 },
    },
  ])
  expect([answer.text, answer.finish, answer.promptTokens, answer.answerTokens]).toEqual([
    "Hi",
    "stop",
    3,
    2,
  ])
})

test("speed counts tokens, not events, and begins with the first", () => {
  const answer = told(
    [100, delta({ content: "" }, 0)],
    [200, delta({ content: "a" }, 1)],
    [300, delta({ content: "b c d" }, 5)],
    [400, delta({ content: "e" }, 9)],
  )
  expect(timeToFirst(answer.timing)).toBe(200)
  expect(tokensPerSecond(answer.timing)).toBe(40)
  expect(ratesOf(answer.timing, 4)).toEqual([0, 0, 10, 80])
})

test("one event with tokens tells no speed", () => {
  const answer = told([200, delta({ content: "a" }, 30)])
  expect(tokensPerSecond(answer.timing)).toBeNull()
})

test("tokens keep their alternatives", () => {
  const answer = told([
    1,
    {
      choices: [
        {
          delta: { content: "a" },
          logprobs: {
            content: [{ token: "a", logprob: -0.1, top_logprobs: [{ token: "b", logprob: -2.5 }] }],
          },
        },
      ],
    },
  ])
  expect(answer.tokens).toEqual([
    { text: "a", logprob: -0.1, others: [{ text: "b", logprob: -2.5 }] },
  ])
})

test("an error in the stream keeps its words", () => {
  expect(() => told([1, { error: { message: "The engine has ended." } }])).toThrow(
    "The engine has ended.",
  )
})
