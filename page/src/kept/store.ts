/**
 * Records of this page in the browser, by kind and id: IndexedDB, in a database of the server's own
 * address, since a proxy may have several servers under one origin. Nothing of it is sent anywhere.
 *
 * Where the browser refuses, or has no room, records live as long as the tab; `onproblem` is told.
 */
export const KINDS = ["chat", "head", "draft"] as const
export type Kind = (typeof KINDS)[number]

const NAME = `graphrt ${new URL(".", document.baseURI).pathname}`
const NO_ROOM =
  "This browser has no room left: new words go with this tab. Delete chats, or export them."
const NO_STORE =
  "This browser keeps no chats and drafts: they go with this tab. Export what matters."
// A browser may leave an opening without an answer, such as while another tab deletes its data.
const LONGEST_WAIT = 3000

/** A record, or the reason why there is none any more. */
type Held = { value: unknown } | null

export class Store {
  /** Why records are not kept; "" while they are. */
  problem = ""
  onproblem: (problem: string) => void = () => undefined

  /** What could not be written; it hides what is in the database. Null: deleted. */
  readonly #held: Record<Kind, Map<string, Held>> = {
    chat: new Map(),
    head: new Map(),
    draft: new Map(),
  }
  #opening: Promise<IDBDatabase | null> | undefined

  async get<T>(kind: Kind, id: string): Promise<T | undefined> {
    const held = this.#held[kind].get(id)
    if (held !== undefined) return held?.value as T | undefined
    const found = await this.#read<T | undefined>(kind, (store) => store.get(id))
    return found ?? undefined
  }

  /** All records of a kind, with their ids, in no order. */
  async all<T>(kind: Kind): Promise<[string, T][]> {
    const keys = (await this.#read(kind, (store) => store.getAllKeys())) ?? []
    const values = (await this.#read<unknown[]>(kind, (store) => store.getAll())) ?? []
    const found = new Map<string, unknown>()
    // Another tab may have written between the two.
    if (keys.length === values.length) keys.forEach((id, at) => found.set(String(id), values[at]))
    else for (const id of keys) found.set(String(id), await this.get(kind, String(id)))
    for (const [id, held] of this.#held[kind]) {
      if (held) found.set(id, held.value)
      else found.delete(id)
    }
    return [...found].filter(([, value]) => value !== undefined) as [string, T][]
  }

  /** Write records together, and delete those that are `undefined`. */
  async put(records: [kind: Kind, id: string, value: unknown][]): Promise<void> {
    try {
      const database = await this.#open()
      if (!database) throw new DOMException("", "UnknownError")
      await written(database, records)
      for (const [kind, id] of records) this.#held[kind].delete(id)
      this.#tell("")
    } catch (error) {
      for (const [kind, id, value] of records)
        this.#held[kind].set(id, value === undefined ? null : { value })
      const isFull = error instanceof DOMException && error.name === "QuotaExceededError"
      this.#tell(isFull ? NO_ROOM : NO_STORE)
    }
  }

  #tell(problem: string): void {
    if (this.problem === problem) return
    this.problem = problem
    this.onproblem(problem)
  }

  async #read<T>(
    kind: Kind,
    ask: (store: IDBObjectStore) => IDBRequest<T>,
  ): Promise<T | undefined> {
    try {
      const database = await this.#open()
      return database
        ? await answered(ask(database.transaction(kind).objectStore(kind)))
        : undefined
    } catch {
      return undefined
    }
  }

  #open(): Promise<IDBDatabase | null> {
    this.#opening ??= Promise.race([
      opened(() => (this.#opening = undefined)).catch(() => null),
      new Promise<null>((resolve) => setTimeout(() => resolve(null), LONGEST_WAIT)),
    ])
    return this.#opening
  }
}

function answered<T>(asked: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    asked.onsuccess = () => resolve(asked.result)
    asked.onerror = () => reject(asked.error ?? new DOMException("", "UnknownError"))
  })
}

/** `onclose`: the browser or another tab has closed the database, so it has to be opened again. */
async function opened(onclose: () => void): Promise<IDBDatabase> {
  const asked = indexedDB.open(NAME, 1)
  asked.onupgradeneeded = () => KINDS.forEach((kind) => asked.result.createObjectStore(kind))
  const database = await answered(asked)
  database.onclose = onclose
  database.onversionchange = () => {
    database.close()
    onclose()
  }
  return database
}

function written(
  database: IDBDatabase,
  records: [kind: Kind, id: string, value: unknown][],
): Promise<void> {
  return new Promise((resolve, reject) => {
    const change = database.transaction([...new Set(records.map(([kind]) => kind))], "readwrite")
    change.oncomplete = () => resolve()
    change.onerror = change.onabort = () =>
      reject(change.error ?? new DOMException("", "UnknownError"))
    for (const [kind, id, value] of records) {
      const store = change.objectStore(kind)
      if (value === undefined) store.delete(id)
      else store.put(value, id)
    }
    // A page that is about to go has no time for the answers, without which nothing is committed.
    change.commit()
  })
}

export const store = new Store()
