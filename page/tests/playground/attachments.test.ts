import { expect, test } from "vitest"
import { documentName, words } from "../../src/playground/chat/attachments"
import { chatBody, NO_SETTINGS } from "../../src/playground/chat/request"

test("a document is sent as a file with its name, a picture and a sound as what they are", () => {
  const pictures = [
    "data:text/plain;name=Notes%20%C3%A4.md;base64,SGVsbG8=",
    "data:image/png;base64,AAAA",
    "data:audio/wav;base64,UklGRgAA",
    "data:video/mp4;base64,AAAA",
  ]
  const { messages } = chatBody("m", [{ role: "user", text: "What?", pictures }], NO_SETTINGS, {})
  const [{ content }] = messages as [{ content: Record<string, unknown>[] }]
  expect(content).toEqual([
    {
      type: "file",
      file: { filename: "Notes ä.md", file_data: "data:text/plain;base64,SGVsbG8=" },
    },
    { type: "image_url", image_url: { url: pictures[1] } },
    { type: "input_audio", input_audio: { data: pictures[2] } },
    { type: "video_url", video_url: { url: pictures[3] } },
    { type: "text", text: "What?" },
  ])
  expect(documentName(pictures[1]!)).toBeNull()
})

test("only what is read is offered", () => {
  expect(words([])).toBe("file")
  expect(words(["image"])).toBe("picture or file")
  expect(words(["image", "audio"])).toBe("picture, sound or file")
})
