// A small agent over ollama-js: it reads, writes and runs as the model says, in lines and whole.
import { execSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'

const [module, host, model] = process.argv.slice(2)
const { Ollama } = await import(module)
const ollama = new Ollama({ host })

const text = { type: 'string' }
const tool = (name, properties) => ({
  type: 'function',
  function: { name, description: name, parameters: { type: 'object', properties } },
})
const tools = [tool('read', { path: text }), tool('write', { path: text, text }), tool('run', { command: text })]
const actions = {
  read: ({ path }) => readFileSync(path, 'utf8'),
  write: ({ path, text }) => (writeFileSync(path, text), 'written'),
  run: ({ command }) => execSync(command, { encoding: 'utf8' }),
}

const names = (await ollama.list()).models.map((each) => each.model)
if (!names.includes(model)) throw new Error(`${model} is not among ${names}`)
await ollama.show({ model })
const refused = await ollama.copy({ source: model, destination: 'x' }).then(
  () => null,
  (error) => error,
)
if (refused?.status_code !== 403) throw new Error(`a copy was answered with ${refused}`)

const messages = [{ role: 'user', content: 'Greet the graph.' }]
for (let turn = 0; ; turn++) {
  let message = { role: 'assistant', content: '', tool_calls: [] }
  if (turn % 2 === 0) {
    for await (const part of await ollama.chat({ model, messages, tools, stream: true })) {
      message.content += part.message.content
      message.tool_calls.push(...(part.message.tool_calls ?? []))
    }
  } else {
    message = (await ollama.chat({ model, messages, tools })).message
  }
  messages.push(message)
  if (!message.tool_calls?.length) break
  for (const { function: called } of message.tool_calls) {
    const content = actions[called.name](called.arguments)
    messages.push({ role: 'tool', tool_name: called.name, content })
  }
}
console.log(messages.at(-1).content)
