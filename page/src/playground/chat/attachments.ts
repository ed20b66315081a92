import { PcmReader, wavFile } from "../sound/wav"

const NAME = /^data:[^,]*;name=([^;,]*)/
const KINDS: Record<string, string> = { image: "picture", audio: "sound", video: "video" }

/** What a message takes, in words: "picture, sound or file". `reads` as in `attachmentsFrom`. */
export function words(reads: string[]): string {
  const media = reads.map((kind) => KINDS[kind])
  return media.length ? `${media.join(", ")} or file` : "file"
}

/**
 * Read dropped, pasted or chosen files as data: addresses; those of documents carry their names.
 *
 * @param reads what the models read beside text: "image", "audio", "video".
 * @returns what a message takes of them, and why it does not take another one.
 */
export async function attachmentsFrom(
  files: Iterable<File>,
  reads: string[],
): Promise<{ taken: string[]; reason: string }> {
  const taken: string[] = []
  let reason = ""
  for (const file of files) {
    const kind = file.type.split("/")[0]!
    if (kind in KINDS) {
      if (reads.includes(kind)) taken.push(await dataAddress(file))
      else reason = `No ${KINDS[kind]}s are read here.`
    } else if (file.type === "application/pdf") taken.push(await documentAddress(file, file.type))
    else if (await isText(file))
      taken.push(await documentAddress(file, file.type === "text/html" ? file.type : "text/plain"))
    else reason = `${file.name} is neither text nor PDF.`
  }
  return { taken, reason }
}

async function isText(file: File): Promise<boolean> {
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer())
    return true
  } catch {
    return false
  }
}

async function documentAddress(file: File, type: string): Promise<string> {
  const address = await dataAddress(file)
  const name = encodeURIComponent(file.name)
  return `data:${type};name=${name};base64,${address.slice(address.indexOf(",") + 1)}`
}

/** The name of a document; null for a picture or a sound. */
export function documentName(address: string): string | null {
  const name = NAME.exec(address)?.[1]
  return name === undefined ? null : decodeURIComponent(name)
}

/** "image", "audio" or "video". */
export function mediumOf(address: string): string {
  return /^data:(\w*)/.exec(address)?.[1] ?? ""
}

const SAMPLES_PER_SECOND = 24_000

/** The address of a sound in Base64 that a browser plays: of a WAV file, or of 16-bit samples. */
export function soundAddress(base64: string): string {
  if (base64.startsWith("UklGR")) return `data:audio/wav;base64,${base64}`
  const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0))
  const file = wavFile(new PcmReader().read(bytes), SAMPLES_PER_SECOND)
  return URL.createObjectURL(file)
}

export function dataAddress(file: Blob): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader()
    reader.onload = () => resolve(reader.result as string)
    reader.onerror = () => reject(reader.error ?? new Error("The file could not be read."))
    reader.readAsDataURL(file)
  })
}
