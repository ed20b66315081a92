// OpenAI's client for Node: kept responses, conversations, background, stored chats.
import OpenAI from "openai";
import { zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";

const client = new OpenAI({ baseURL: `${process.argv[2]}/v1`, apiKey: "none", maxRetries: 0 });
const asked = { model: "scripted", input: "Hello" };
const first = await client.responses.create(asked);
const second = await client.responses.create({ ...asked, previous_response_id: first.id });
const read = await client.responses.retrieve(second.id);
const inputs = [];
for await (const item of client.responses.inputItems.list(second.id, { limit: 1 })) inputs.push(item);
const conversation = await client.conversations.create({ items: [{ role: "user", content: "Hi" }] });
await client.responses.create({ ...asked, conversation: conversation.id });
const items = [];
for await (const item of client.conversations.items.list(conversation.id)) items.push(item.type);

const helper = client.responses.stream({ ...asked, background: true });
let begun = null;
let last = 0;
for await (const event of helper) {
  begun ??= event.response?.id;
  last = event.sequence_number;
  if (event.type === "response.output_item.added") break;
}
const rest = client.responses.stream({ response_id: begun, starting_after: last });
const finished = await rest.finalResponse();
let polled = await client.responses.create({ ...asked, background: true });
while (polled.status === "queued" || polled.status === "in_progress") {
  await new Promise((done) => setTimeout(done, 20));
  polled = await client.responses.retrieve(polled.id);
}
const cancelled = await client.responses.cancel(polled.id);
const compacted = await client.responses.compact({ ...asked, previous_response_id: second.id });
const after = await client.responses.create({ model: "scripted", input: compacted.output });
const chat = await client.chat.completions.create({
  model: "scripted", messages: [{ role: "user", content: "Hello" }], store: true, metadata: { a: "b" },
});
const chats = [];
for await (const each of client.chat.completions.list({ metadata: { a: "b" } })) chats.push(each.id);
const messages = [];
for await (const each of client.chat.completions.messages.list(chat.id)) messages.push(each.content);
await client.chat.completions.delete(chat.id);
await client.responses.delete(first.id);
const gone = await client.responses.retrieve(first.id).catch((error) => error.status);
console.log(JSON.stringify({
  second: second.output_text, read: read.output_text, inputs: inputs.length, items,
  finished: finished.output_text, polled: polled.output_text, cancelled: cancelled.status,
  compacted: compacted.output.map((item) => item.type), after: after.output_text,
  chats: chats.length === 1 && chats[0] === chat.id, messages, gone,
}));
