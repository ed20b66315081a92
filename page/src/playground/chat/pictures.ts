import { PcmReader, wavFile } from "../sound/wav"

/** The pictures and sounds among dropped or pasted files, as data: addresses. */
export async function picturesFrom(files: Iterable<File>): Promise<string[]> {
  const media = [...files].filter(({ type }) => /^(image|audio)\//.test(type))
  return Promise.all(media.map(dataAddress))
}

export function isSound(address: string): boolean {
  return address.startsWith("data:audio/")
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
