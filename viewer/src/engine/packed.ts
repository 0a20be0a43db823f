// SPDX-License-Identifier: Apache-2.0 OR MIT
// What the page carries inside it: bytes as text, packed or not.

export function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  const native = (
    Uint8Array as unknown as { fromBase64?: (text: string) => Uint8Array<ArrayBuffer> }
  ).fromBase64;
  if (native) return native.call(Uint8Array, text);
  const bytes = atob(text);
  const out = new Uint8Array(bytes.length);
  for (let at = 0; at < bytes.length; at++) out[at] = bytes.charCodeAt(at);
  return out;
}

/** Packed by gzip. */
export function unpack(text: string): Promise<ArrayBuffer> {
  const packed = new Blob([fromBase64(text)]).stream();
  return new Response(packed.pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}
