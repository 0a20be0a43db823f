// SPDX-License-Identifier: Apache-2.0 OR MIT
// A trace that `kymo serve` gives out, read by ranges, so that no more than a window of it is here.
import type { Served } from "./protocol";

/** Bytes of a file, as the engine asks for them; throws what cannot be read. */
export interface Reader {
  size: number;
  /** Waits for them. */
  read(from: number, end: number): ArrayBuffer;
}

/** Names the file, and not what has been appended to it since: INODE of "INODE-SIZE-TIME". */
function revisionOf(etag: string | null): string {
  return /^"([0-9a-f]+)-/.exec(etag ?? "")?.[1] ?? "";
}

/** Asks for its size and name. Throws a sentence. */
export async function findServed(url: string): Promise<{ file: Served; name: string }> {
  let answer: Response;
  try {
    answer = await fetch(url, { method: "HEAD", cache: "no-store" });
  } catch {
    throw new Error("kymo serve does not answer any more; start it again and use its new address.");
  }
  if (!answer.ok)
    throw new Error("kymo serve has no such trace any more: go back to its list and reload it.");
  const disposition = answer.headers.get("Content-Disposition") ?? "";
  let name = /filename\*=UTF-8''([^;]*)/.exec(disposition)?.[1] ?? "trace";
  try {
    name = decodeURIComponent(name);
  } catch {
    // Its bytes are no UTF-8: they stay as they are written there.
  }
  return {
    file: {
      url: answer.url, // a live process leads to a copy of it
      size: Number(answer.headers.get("Content-Length")),
      revision: revisionOf(answer.headers.get("ETag")),
    },
    name,
  };
}

function rangeOf(from: number, end: number): string {
  return `bytes=${from}-${end - 1}`;
}

function checked(
  file: Served,
  status: number,
  etag: string | null,
  bytes: ArrayBuffer,
  wanted: number,
): ArrayBuffer {
  if (status !== 206 || bytes.byteLength !== wanted || revisionOf(etag) !== file.revision)
    throw new Error("it is another file now");
  return bytes;
}

/** For workers alone: there a request may be waited for. */
export function servedReader(file: Served): Reader {
  return {
    size: file.size,
    read(from, end) {
      const request = new XMLHttpRequest();
      request.open("GET", file.url, false);
      request.responseType = "arraybuffer";
      request.setRequestHeader("Range", rangeOf(from, end));
      request.send();
      const bytes = request.response as ArrayBuffer;
      return checked(file, request.status, request.getResponseHeader("ETag"), bytes, end - from);
    },
  };
}

/** The same without waiting, of a file of either kind. */
export async function bytesOf(
  file: Blob | Served,
  from: number,
  end: number,
): Promise<ArrayBuffer> {
  if (file instanceof Blob) return file.slice(from, end).arrayBuffer();
  const answer = await fetch(file.url, { headers: { Range: rangeOf(from, end) } });
  const bytes = await answer.arrayBuffer();
  return checked(file, answer.status, answer.headers.get("ETag"), bytes, end - from);
}
