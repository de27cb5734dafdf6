// Programs as a link fragment, which no server sees: their texts and settings, compressed.

const MOST = 1 << 20; // characters of one program
const through = async (bytes, stream) => new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer());

/** The fragment of a link to these programs. */
export async function packPrograms(programs) {
  const bytes = await through(new TextEncoder().encode(JSON.stringify(programs)), new CompressionStream("deflate-raw"));
  const text = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
  return `#p=${text.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")}`;
}

/** The programs of a link's fragment; null if it holds none. */
export async function unpackPrograms(fragment) {
  if (!fragment.startsWith("#p=")) return null;
  try {
    const text = atob(fragment.slice(3).replaceAll("-", "+").replaceAll("_", "/"));
    const bytes = await through(Uint8Array.from(text, (sign) => sign.charCodeAt(0)), new DecompressionStream("deflate-raw"));
    return checkPrograms(JSON.parse(new TextDecoder().decode(bytes)));
  } catch {
    return null; // cut off, or of something else
  }
}

/** One or two programs as they are kept and shared; null for anything else. */
export function checkPrograms(found) {
  const fits = Array.isArray(found) && found.length > 0 && found.every((one) => typeof one?.source === "string" && one.source.length <= MOST);
  return fits ? found.slice(0, 2) : null;
}
