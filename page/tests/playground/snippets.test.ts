/// <reference types="node" />
import { execFileSync } from "node:child_process"
import { expect, test } from "vitest"
import { pythonValue, shortened, snippet } from "../../src/playground/snippets"

const BODY = {
  model: "demo",
  messages: [{ role: "user", content: "Don't “quote” $HOME `me`\n\u2028\\" }],
  stream: true,
  temperature: 0.5,
  top_k: 3,
  seed: null,
}

test("curl sends exactly the body, whatever is in it", () => {
  const code = snippet("curl", "http://h/x/", { path: "/v3/chat/completions", body: BODY }, true)
  // The shell's own reading of the words, with curl replaced by a function.
  const words = execFileSync("sh", ["-c", `curl() { printf '%s\\0' "$@"; }\n${code}`], {
    env: { GRAPHRT_API_KEY: "k" },
  })
    .toString()
    .split("\0")
  expect(words.slice(0, 2)).toEqual(["-N", "http://h/x/v3/chat/completions"])
  expect(words).toContain("Authorization: Bearer k")
  expect(JSON.parse(words[words.indexOf("-d") + 1]!)).toEqual(BODY)
})

test("Python names what OpenAI's library knows, and sends the rest as extra_body", () => {
  const code = snippet("Python", "http://h", { path: "/v3/chat/completions", body: BODY }, true)
  expect(code).toContain('base_url="http://h/v3"')
  expect(code).toContain("    temperature=0.5,\n")
  expect(code).toContain("    seed=None,\n")
  expect(code).toContain('    extra_body={"top_k": 3},\n')
  expect(code).not.toContain("    top_k=")
})

test("a key is read from the environment where one is wanted, and not named elsewhere", () => {
  for (const language of ["curl", "Python", "JavaScript"] as const) {
    for (const path of ["/v3/rerank", "/v3/chat/completions"]) {
      const request = { path, body: BODY }
      expect(snippet(language, "http://h", request, true)).toContain("GRAPHRT_API_KEY")
      const bare = snippet(language, "http://h", request, false)
      expect(bare).not.toMatch(/GRAPHRT_API_KEY|Authorization|headers=|import os/)
    }
  }
})

test("forms name their files", () => {
  const form = {
    path: "/v3/audio/transcriptions",
    body: { model: "m", file: { file: "it's.wav" } },
    isForm: true,
  }
  expect(snippet("curl", "http://h", form, true)).toContain(`-F 'file=@it'\\''s.wav'`)
  expect(snippet("Python", "http://h", form, true)).toContain(
    'files={"file": open("it\'s.wav", "rb")}',
  )
  expect(snippet("JavaScript", "http://h", form, true)).toContain('await openAsBlob("it\'s.wav")')
})

test("long values take a line for each of their parts", () => {
  const long = { a: "x".repeat(50), b: ["y".repeat(50), true] }
  expect(pythonValue(long, 0).split("\n")[1]).toBe(`    "a": "${"x".repeat(50)}",`)
  expect(pythonValue({ a: null, b: false }, 0)).toBe('{"a": None, "b": False}')
})

test("long texts are cut for showing", () => {
  expect(shortened({ url: "d".repeat(1000) })).toEqual({
    url: `${"d".repeat(40)}… (1000 characters)`,
  })
})
