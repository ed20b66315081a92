/** The pictures among dropped or pasted files, as data: addresses. */
export async function picturesFrom(files: Iterable<File>): Promise<string[]> {
  const pictures = [...files].filter(({ type }) => type.startsWith("image/"))
  return Promise.all(pictures.map(dataAddress))
}

export function dataAddress(file: Blob): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader()
    reader.onload = () => resolve(reader.result as string)
    reader.onerror = () => reject(reader.error ?? new Error("The file could not be read."))
    reader.readAsDataURL(file)
  })
}
