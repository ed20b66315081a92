/** A request to show as code. Files of forms stand as `{ file: name }`. */
export interface ShownRequest {
  path: string
  body: Record<string, unknown>
  /** The body is a form, not JSON. */
  isForm?: boolean
}

export const LANGUAGES = ["curl", "Python", "JavaScript"] as const
export type Language = (typeof LANGUAGES)[number]

// Keys are never put in: where one is wanted, all read this variable of the environment.
const KEY = "GRAPHRT_API_KEY"
// Members that the methods of OpenAI's libraries take by name; all others go into `extra_body`.
const NAMED = new Set([
  "model",
  "messages",
  "stream",
  "stream_options",
  "temperature",
  "top_p",
  "max_tokens",
  "max_completion_tokens",
  "seed",
  "stop",
  "n",
  "tools",
  "tool_choice",
  "response_format",
  "logprobs",
  "top_logprobs",
  "frequency_penalty",
  "presence_penalty",
])

/**
 * The request as code that runs as it stands. `origin` is the server's address, with its prefix;
 * `hasKey`: the server wants a key.
 */
export function snippet(
  language: Language,
  origin: string,
  request: ShownRequest,
  hasKey: boolean,
): string {
  const server = origin.replace(/\/$/, "")
  const write = language === "curl" ? curl : language === "Python" ? python : javaScript
  return write(server, request, hasKey)
}

function isFile(value: unknown): value is { file: string } {
  return typeof value === "object" && value !== null && "file" in value
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}

function curl(server: string, { path, body, isForm }: ShownRequest, hasKey: boolean): string {
  const key = hasKey ? [`-H "Authorization: Bearer $${KEY}"`] : []
  if (isForm) {
    const fields = Object.entries(body).map(([name, value]) =>
      isFile(value) ? `-F ${quoted(`${name}=@${value.file}`)}` : `-F ${quoted(`${name}=${value}`)}`,
    )
    return [`curl ${server}${path}`, ...key, ...fields].join(" \\\n  ")
  }
  const flags = body.stream === true ? "curl -N" : "curl"
  const type = `-H 'Content-Type: application/json'`
  const data = `-d ${quoted(JSON.stringify(body, null, 2))}`
  return [`${flags} ${server}${path}`, ...key, type, data].join(" \\\n  ")
}

function python(server: string, request: ShownRequest, hasKey: boolean): string {
  const { path, body, isForm } = request
  if (path.endsWith("/chat/completions")) return pythonChat(server, request, hasKey)
  const key = `headers = {"Authorization": f"Bearer {os.environ['${KEY}']}"}`
  const head = hasKey ? `import os\n\nimport httpx\n\n${key}\n` : "import httpx\n\n"
  const headers = hasKey ? ", headers=headers" : ""
  if (isForm) {
    const files = Object.entries(body).filter(([, value]) => isFile(value))
    const fields = Object.fromEntries(Object.entries(body).filter(([, value]) => !isFile(value)))
    const opened = files.map(
      ([name, value]) =>
        `${literal(name)}: open(${literal((value as { file: string }).file)}, "rb")`,
    )
    return `${head}answer = httpx.post(
    "${server}${path}",
    data=${pythonValue(fields, 1)},
    files={${opened.join(", ")}}${headers},
    timeout=None,
)
print(answer.text)
`
  }
  if (body.stream === true) {
    return `${head}body = ${pythonValue(body, 0)}
with httpx.stream(
    "POST", "${server}${path}", json=body${headers}, timeout=None
) as answer:
    for line in answer.iter_lines():
        print(line)
`
  }
  return `${head}body = ${pythonValue(body, 0)}
answer = httpx.post("${server}${path}", json=body${headers}, timeout=None)
print(answer.text)
`
}

function pythonChat(server: string, { path, body }: ShownRequest, hasKey: boolean): string {
  const named = Object.entries(body).filter(([name]) => NAMED.has(name))
  const extra = Object.fromEntries(Object.entries(body).filter(([name]) => !NAMED.has(name)))
  const lines = named.map(([name, value]) => `    ${name}=${pythonValue(value, 1)},`)
  if (Object.keys(extra).length) lines.push(`    extra_body=${pythonValue(extra, 1)},`)
  const base = server + path.replace(/\/chat\/completions$/, "")
  const read =
    body.stream === true
      ? `for chunk in answer:
    if chunk.choices:
        print(chunk.choices[0].delta.content or "", end="", flush=True)
`
      : "print(answer.choices[0].message.content)\n"
  // The library wants one in any case.
  const key = hasKey ? `os.environ["${KEY}"]` : '"none"'
  return `${hasKey ? "import os\n\n" : ""}from openai import OpenAI

client = OpenAI(base_url="${base}", api_key=${key})
answer = client.chat.completions.create(
${lines.join("\n")}
)
${read}`
}

/** A JSON value as a Python expression; `depth` is how many levels of indentation surround it. */
export function pythonValue(value: unknown, depth: number): string {
  if (value === null || value === undefined) return "None"
  if (typeof value === "boolean") return value ? "True" : "False"
  if (typeof value === "string") return literal(value)
  if (typeof value !== "object") return String(value)
  const inside = "    ".repeat(depth + 1)
  const after = "    ".repeat(depth)
  const parts = Array.isArray(value)
    ? value.map((one) => pythonValue(one, depth + 1))
    : Object.entries(value).map(([name, one]) => `${literal(name)}: ${pythonValue(one, depth + 1)}`)
  const [open, close] = Array.isArray(value) ? "[]" : "{}"
  const line = open + parts.join(", ") + close
  if (line.length + depth * 4 < 80 && !line.includes("\n")) return line
  return `${open}\n${parts.map((part) => `${inside}${part},\n`).join("")}${after}${close}`
}

// Python reads all escapes of JSON but "\/", which JSON.stringify does not write.
function literal(text: string): string {
  return JSON.stringify(text)
}

function javaScript(server: string, { path, body, isForm }: ShownRequest, hasKey: boolean): string {
  const key = hasKey ? "Authorization: `Bearer ${process.env." + KEY + "}`" : ""
  if (isForm) {
    const lines = Object.entries(body).map(([name, value]) =>
      isFile(value)
        ? `form.append(${literal(name)}, await openAsBlob(${literal(value.file)}), ${literal(value.file)})`
        : `form.append(${literal(name)}, ${literal(String(value))})`,
    )
    return `import { openAsBlob } from "node:fs"

const form = new FormData()
${lines.join("\n")}
const answer = await fetch("${server}${path}", {
  method: "POST",${key && `\n  headers: { ${key} },`}
  body: form,
})
console.log(await answer.text())
`
  }
  const head = `const answer = await fetch("${server}${path}", {
  method: "POST",
  headers: { "Content-Type": "application/json"${key && `, ${key}`} },
  body: JSON.stringify(${JSON.stringify(body, null, 2).replaceAll("\n", "\n  ")}),
})
`
  if (body.stream !== true) return `${head}console.log(await answer.text())\n`
  return `${head}for await (const piece of answer.body.pipeThrough(new TextDecoderStream())) {
  process.stdout.write(piece)
}
`
}

/** The body with long texts, such as pictures, cut: for showing, not for copying. */
export function shortened(value: unknown, most = 160): unknown {
  if (typeof value === "string") {
    return value.length > most ? `${value.slice(0, 40)}… (${value.length} characters)` : value
  }
  if (Array.isArray(value)) return value.map((one) => shortened(one, most))
  if (typeof value === "object" && value !== null) {
    return Object.fromEntries(
      Object.entries(value).map(([name, one]) => [name, shortened(one, most)]),
    )
  }
  return value
}
