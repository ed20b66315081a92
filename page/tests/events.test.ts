import { expect, test } from "vitest"
import { readEvents } from "../src/server/events"

function body(...pieces: string[]): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder()
  return new ReadableStream({
    start(controller) {
      for (const piece of pieces) controller.enqueue(encoder.encode(piece))
      controller.close()
    },
  })
}

async function read(...pieces: string[]) {
  const events = []
  for await (const event of readEvents(body(...pieces))) events.push(event)
  return events
}

test("an event may come in pieces of any size", async () => {
  const text = 'event: hello\r\ndata: {"a":1}\r\n\r\n: ping\n\ndata: one\ndata: two\n\n'
  const events = [
    { event: "hello", data: '{"a":1}' },
    { event: "message", data: "one\ntwo" },
  ]
  expect(await read(text)).toEqual(events)
  expect(await read(...text)).toEqual(events)
})

test("an event that the end cuts is not told", async () => {
  expect(await read("data: whole\n\ndata: half")).toEqual([{ event: "message", data: "whole" }])
})
