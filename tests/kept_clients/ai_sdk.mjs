// The default loop of the Vercel AI SDK: it names earlier items by references.
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const openai = createOpenAI({ baseURL: `${process.argv[2]}/v1`, apiKey: "none" });
const clock = tool({
  description: "The time of a city",
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => `noon in ${city}`,
});
const asked = { model: openai("scripted"), tools: { clock }, stopWhen: stepCountIs(5) };
const first = await generateText({ ...asked, prompt: "What time is it?" });
const messages = [
  { role: "user", content: "What time is it?" },
  ...first.response.messages,
  { role: "user", content: "And now?" },
];
const second = await generateText({ ...asked, messages });
const streamed = streamText({ ...asked, messages });
let text = "";
for await (const piece of streamed.textStream) text += piece;
const continued = await generateText({
  ...asked,
  prompt: "Again?",
  providerOptions: {
    openai: { previousResponseId: first.finalStep?.providerMetadata?.openai?.responseId
      ?? first.providerMetadata.openai.responseId },
  },
});
console.log(JSON.stringify({
  steps: first.steps.length, first: first.text, second: second.text, streamed: text,
  continued: continued.text,
}));
