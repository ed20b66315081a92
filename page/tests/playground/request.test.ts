import { expect, test } from "vitest"
import { newAnswer } from "../../src/playground/chat/answer"
import { soundAddress } from "../../src/playground/chat/attachments"
import {
  chatBody,
  NO_SETTINGS,
  openCalls,
  toolsFrom,
  type Turn,
} from "../../src/playground/chat/request"

const CALL = { id: "c1", name: "add", arguments: '{"x":1}' }
const asked: Turn = { role: "user", text: "Hi", pictures: [] }
const called: Turn = {
  role: "assistant",
  answer: { ...newAnswer(0), tools: [CALL] },
  error: "",
}

test("a question becomes a body with the usage of each event", () => {
  const settings = { ...NO_SETTINGS, system: "Be brief.", parameters: { temperature: 0 } }
  expect(chatBody("demo", [asked], settings, {})).toEqual({
    model: "demo",
    messages: [
      { role: "system", content: "Be brief." },
      { role: "user", content: "Hi" },
    ],
    stream: true,
    stream_options: { include_usage: true, continuous_usage_stats: true },
    temperature: 0,
  })
})

test("pictures stand before the words", () => {
  const turn: Turn = { role: "user", text: "Which?", pictures: ["data:image/png;base64,AA"] }
  expect(chatBody("m", [turn], NO_SETTINGS, {}).messages).toEqual([
    {
      role: "user",
      content: [
        { type: "image_url", image_url: { url: "data:image/png;base64,AA" } },
        { type: "text", text: "Which?" },
      ],
    },
  ])
})

test("a sound is a part of its own kind", () => {
  const url = "data:audio/wav;base64,UklGRg=="
  const turn: Turn = { role: "user", text: "", pictures: [url] }
  expect(chatBody("m", [turn], NO_SETTINGS, {}).messages).toEqual([
    { role: "user", content: [{ type: "input_audio", input_audio: { data: url } }] },
  ])
})

test("samples are played as a file, and a file as it is", async () => {
  expect(soundAddress("UklGRgAA")).toBe("data:audio/wav;base64,UklGRgAA")
  const address = soundAddress("AQACAA==")
  const file = new DataView(await (await fetch(address)).arrayBuffer())
  expect([file.byteLength, file.getUint32(24, true), file.getUint32(40, true)]).toEqual([
    48, 24_000, 4,
  ])
  expect(file.getInt16(46, true)).toBe(2)
})

test("calls that a person has answered go back with their ids", () => {
  const answered: Turn = { role: "tool", call: CALL, text: "2" }
  expect(openCalls([asked, called])).toEqual([CALL])
  expect(openCalls([asked, called, answered])).toEqual([])
  expect(chatBody("m", [asked, called, answered], NO_SETTINGS, {}).messages).toEqual([
    { role: "user", content: "Hi" },
    {
      role: "assistant",
      content: null,
      tool_calls: [{ id: "c1", type: "function", function: { name: "add", arguments: '{"x":1}' } }],
    },
    { role: "tool", tool_call_id: "c1", content: "2" },
  ])
})

test("an answer that failed before its first word is left out", () => {
  const failed: Turn = { role: "assistant", answer: newAnswer(0), error: "busy" }
  expect(chatBody("m", [asked, failed], NO_SETTINGS, {}).messages).toHaveLength(1)
})

test("alternatives are asked for as far as the server knows them", () => {
  const settings = { ...NO_SETTINGS, hasLogprobs: true }
  expect(chatBody("m", [asked], settings, {})).not.toHaveProperty("top_logprobs")
  expect(chatBody("m", [asked], settings, { top_logprobs: { maximum: 0 } })).not.toHaveProperty(
    "top_logprobs",
  )
  expect(chatBody("m", [asked], settings, { top_logprobs: { maximum: 20 } }).top_logprobs).toBe(5)
})

test("tools may be written as functions, and one needs no list", () => {
  const tool = { type: "function", function: { name: "add", parameters: {} } }
  expect(toolsFrom('{"name": "add", "parameters": {}}')).toEqual([tool])
  expect(toolsFrom(JSON.stringify([tool]))).toEqual([tool])
  expect(() => toolsFrom('[{"parameters": {}}]')).toThrow("Tool 1 has no name.")
})
