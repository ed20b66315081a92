import type { Component } from "svelte"
import type { Servable } from "./servables"

export interface PanelProps {
  servable: Servable
  servables: Servable[]
  /** Of the address: the chat that is shown; "" for the last one. */
  chat: string
}

/** A way to talk to a servable: for the endpoint at the end of `path`, or for tensors or any JSON. */
export interface Kind {
  id: string
  title: string
  path: string
  load: () => Promise<{ default: Component<PanelProps> }>
}

export const KINDS: Kind[] = [
  {
    id: "chat",
    title: "Chat",
    path: "/chat/completions",
    load: () => import("./chat/Chat.svelte"),
  },
  {
    id: "completion",
    title: "Completion",
    path: "/completions",
    load: () => import("./texts/Completion.svelte"),
  },
  {
    id: "embeddings",
    title: "Similarity",
    path: "/embeddings",
    load: () => import("./texts/Embeddings.svelte"),
  },
  { id: "rerank", title: "Rerank", path: "/rerank", load: () => import("./texts/Rerank.svelte") },
  {
    id: "moderations",
    title: "Moderation",
    path: "/moderations",
    load: () => import("./texts/Moderation.svelte"),
  },
  {
    id: "classify",
    title: "Classes",
    path: "/classify",
    load: () => import("./texts/Classes.svelte"),
  },
  {
    id: "transcription",
    title: "Speech to text",
    path: "/audio/transcriptions",
    load: () => import("./sound/Transcription.svelte"),
  },
  {
    id: "talk",
    title: "Talk",
    path: "/realtime",
    load: () => import("./sound/Talk.svelte"),
  },
  {
    id: "speech",
    title: "Text to speech",
    path: "/audio/speech",
    load: () => import("./sound/Speech.svelte"),
  },
  {
    id: "images",
    title: "Images",
    path: "/images/generations",
    load: () => import("./images/Images.svelte"),
  },
  { id: "tensors", title: "Tensors", path: "", load: () => import("./tensors/Tensors.svelte") },
  { id: "request", title: "Own request", path: "", load: () => import("./OwnRequest.svelte") },
]
