import { soon } from "../../kept/kept.svelte"
import { store } from "../../kept/store"
import { Conversation, newId, type KeptConversation } from "./conversation.svelte"
import { NO_SETTINGS, type ChatSettings, type Turn } from "./request"

/** What a list of chats shows of one. */
export interface Head {
  id: string
  title: string
  /** The title is a person's own. */
  isNamed: boolean
  /** Unix time in milliseconds. */
  changed: number
  model: string
}

/** A message that is not sent yet. */
export interface Draft {
  text: string
  pictures: string[]
}

/** A chat as it is kept, and exported. */
export interface KeptChat extends Head {
  conversations: KeptConversation[]
  settings: ChatSettings
  draft: Draft
}

const NO_DRAFT: Draft = { text: "", pictures: [] }
const LONGEST_TITLE = 80

/** A chat: one conversation, or two that are compared, with their settings and the next message. */
export class Chat {
  readonly id: string
  isNamed = false
  changed = 0
  title = $state("")
  conversations = $state.raw<Conversation[]>([])
  #settings = $state.raw<ChatSettings>(NO_SETTINGS)
  #draft = $state.raw<Draft>(NO_DRAFT)

  constructor(id: string, model: string, kept?: KeptChat) {
    this.id = id
    if (kept) this.take(kept)
    else this.conversations = [this.#watched(new Conversation(model))]
  }

  /** Become what another tab has kept. */
  take(kept: KeptChat): void {
    this.isNamed = kept.isNamed
    this.changed = kept.changed
    this.title = kept.title
    this.conversations = kept.conversations.map((one) =>
      this.#watched(new Conversation(one.model, one)),
    )
    this.#settings = kept.settings
    this.#draft = kept.draft
  }

  #watched(conversation: Conversation): Conversation {
    conversation.onchange = () => this.touch()
    return conversation
  }

  get model(): string {
    return this.conversations[0]!.model
  }
  get isBusy(): boolean {
    return this.conversations.some((one) => one.isBusy)
  }
  /** Nothing was said or written yet. */
  get isEmpty(): boolean {
    return (
      this.conversations.every(({ turns }) => turns.length === 0) &&
      this.#draft.text.trim() === "" &&
      this.#draft.pictures.length === 0
    )
  }
  get settings(): ChatSettings {
    return this.#settings
  }
  set settings(settings: ChatSettings) {
    if (JSON.stringify(settings) === JSON.stringify(this.#settings)) return
    this.#settings = settings
    this.touch()
  }
  get draft(): Draft {
    return this.#draft
  }
  set draft(draft: Draft) {
    if (draft.text === this.#draft.text && draft.pictures === this.#draft.pictures) return
    this.#draft = draft
    this.touch()
  }

  /** Add another conversation beside the first, or leave it. */
  compareWith(model: string | null): void {
    for (const one of this.conversations.slice(1)) one.stop()
    const first = this.conversations.slice(0, 1)
    this.conversations = model === null ? first : [...first, this.#watched(new Conversation(model))]
    this.touch()
  }

  /** Something has changed: it is kept soon. */
  touch(): void {
    this.changed = Date.now()
    if (!this.isNamed) this.title = titleOf(this)
    soon(`chat ${this.id}`, () => void chats.keep(this))
  }

  kept(): KeptChat {
    return {
      ...headOf(this),
      conversations: this.conversations.map((one) => one.kept()),
      settings: this.#settings,
      draft: this.#draft,
    }
  }
}

function headOf({ id, title, isNamed, changed, model }: Head): Head {
  return { id, title, isNamed, changed, model }
}

function titleOf(chat: Chat): string {
  const first = chat.conversations[0]?.turns.find(({ role }) => role === "user")
  const text = first?.role === "user" ? first.text : chat.draft.text
  const line = text.trim().split("\n")[0] ?? ""
  return line.length > LONGEST_TITLE ? `${line.slice(0, LONGEST_TITLE - 1)}…` : line
}

/** All chats of this browser: a list of them, and those that are open or being answered. */
class Chats {
  /** The newest first; null until the browser has told. */
  heads = $state.raw<Head[] | null>(null)
  #live = new Map<string, Chat>()
  #others: BroadcastChannel | null = null
  #isRead: Promise<void> | undefined

  /** Read the list, and hear of other tabs' changes. */
  read(): Promise<void> {
    this.#isRead ??= this.#begin()
    return this.#isRead
  }

  async #begin(): Promise<void> {
    await this.#list()
    if (typeof BroadcastChannel === "undefined") return
    this.#others = new BroadcastChannel(`graphrt chats ${new URL(".", document.baseURI).pathname}`)
    this.#others.onmessage = ({ data }) => void this.#heard(String(data))
  }

  async #list(): Promise<void> {
    const found = (await store.all<Head>("head")).map(([, head]) => head)
    this.heads = found.sort((a, b) => b.changed - a.changed)
  }

  async #heard(id: string): Promise<void> {
    await this.#list()
    const live = this.#live.get(id)
    if (!live || live.isBusy) return
    const kept = await store.get<KeptChat>("chat", id)
    if (kept && kept.changed > live.changed) live.take(kept)
  }

  /** The chat of an id; null if there is none. */
  async open(id: string): Promise<Chat | null> {
    const live = this.#live.get(id)
    if (live) return live
    const kept = await store.get<KeptChat>("chat", id)
    // Two views may have asked.
    const found = this.#live.get(id) ?? (kept ? new Chat(id, kept.model, kept) : null)
    if (found) this.#hold(found)
    return found
  }

  /** The chat of a model that was open last, or else a new one. */
  async last(model: string): Promise<Chat> {
    await this.read()
    const head = this.heads?.find((one) => one.model === model)
    return (head && (await this.open(head.id))) ?? this.create(model)
  }

  create(model: string): Chat {
    const made = new Chat(newId(), model)
    this.#hold(made)
    return made
  }

  /** Keep it at hand: all that are being answered, and the last ones. */
  #hold(chat: Chat): void {
    this.#live.delete(chat.id)
    this.#live.set(chat.id, chat)
    for (const [id, one] of this.#live) {
      if (this.#live.size <= 8) break
      if (one !== chat && !one.isBusy) this.#live.delete(id)
    }
  }

  async keep(chat: Chat): Promise<void> {
    // An empty chat is no chat; one that was deleted stays so until something is said in it again.
    if (chat.isEmpty) return this.#write(chat.id, null, null)
    await this.#write(chat.id, headOf(chat), chat.kept())
  }

  async #write(id: string, head: Head | null, kept: KeptChat | null): Promise<void> {
    const known = this.heads ?? []
    if (!head && !known.some((one) => one.id === id)) return
    const others = known.filter((one) => one.id !== id)
    this.heads = head ? [head, ...others].sort((a, b) => b.changed - a.changed) : others
    await store.put([
      ["head", id, head ?? undefined],
      ["chat", id, kept ?? undefined],
    ])
    this.#others?.postMessage(id)
  }

  async rename(id: string, title: string): Promise<void> {
    const chat = await this.open(id)
    if (!chat) return
    chat.isNamed = title.trim() !== ""
    chat.title = chat.isNamed ? title.trim().slice(0, LONGEST_TITLE) : titleOf(chat)
    await this.#write(id, headOf(chat), chat.kept())
  }

  /** Delete a chat; return it, so that it can be brought back. */
  async remove(id: string): Promise<KeptChat | null> {
    const chat = await this.open(id)
    if (!chat) return null
    const kept = chat.kept()
    chat.conversations.forEach((one) => one.stop())
    this.#live.delete(id)
    await this.#write(id, null, null)
    return kept
  }

  /** Chats as they are kept, of these ids or all. */
  async exported(ids?: string[]): Promise<KeptChat[]> {
    const wanted = ids ?? (this.heads ?? []).map(({ id }) => id)
    const found = await Promise.all(
      wanted.map(async (id) => this.#live.get(id)?.kept() ?? store.get<KeptChat>("chat", id)),
    )
    return found.filter((one) => one !== undefined)
  }

  /** Keep chats of a file: one that is here already is kept once, one that differs becomes another. */
  async add(found: KeptChat[]): Promise<number> {
    let added = 0
    for (const one of found) {
      const here = (await this.exported([one.id]))[0]
      if (here && here.changed === one.changed) continue
      const id = here ? newId() : one.id
      const chat = { ...one, id }
      await this.#write(id, headOf(chat), chat)
      added += 1
    }
    return added
  }

  /** The ids of chats in which a text stands, as title or in a turn. */
  async search(text: string): Promise<Set<string>> {
    const wanted = text.trim().toLowerCase()
    const found = new Set<string>()
    for (const head of this.heads ?? []) {
      const isTitle = `${head.title} ${head.model}`.toLowerCase().includes(wanted)
      if (isTitle || (await this.#says(head.id, wanted))) found.add(head.id)
    }
    return found
  }

  async #says(id: string, wanted: string): Promise<boolean> {
    const [chat] = await this.exported([id])
    return (chat?.conversations ?? []).some(({ turns }) =>
      turns.some((turn) => wordsOf(turn).toLowerCase().includes(wanted)),
    )
  }
}

function wordsOf(turn: Turn): string {
  return turn.role === "assistant" ? turn.answer.text : turn.text
}

export const chats = new Chats()
