// SPDX-License-Identifier: Apache-2.0 OR MIT
// Names of futures and places for narrow room: the whole name is one click away.

/** "<core::slice::Iter<T> as core::Iterator>::fold" -> "core::slice::Iter<T>::fold". */
function ofType(name: string): string {
  let depth = 0;
  let end = 0;
  for (let at = 0; at < name.length && name[0] === "<"; at++) {
    if (name[at] === "<") depth++;
    if (name[at] === ">" && name[at - 1] !== "-") depth--;
    if (!end && depth === 1 && name.startsWith(" as ", at)) end = at;
    if (!depth) return ofType(name.slice(1, end || at) + name.slice(at + 1));
  }
  return name;
}

/** "a::b::handler::{{closure}}" -> "b::handler"; "/path/src/main.rs:41:5" -> "src/main.rs:41". */
export function shortName(name: string | null | undefined): string {
  if (!name) return "unnamed";
  const place = /([^/]*\/)?([^/]+\.rs):(\d+)(:\d+)?$/.exec(name);
  if (place) {
    const parts = name.split("/");
    const tail = parts.slice(-3).join("/");
    return tail.replace(/:(\d+):\d+$/, ":$1");
  }
  const closures = /(::\{(\{closure\}|closure#\d+|async_\w+#\d+)\})+$/;
  const plain = ofType(name.replace(closures, ""));
  const parts = plain.replace(/(::)?<.*>/, "<…>").split("::");
  return (parts.length > 3 ? parts.slice(-2) : parts).join("::");
}

const TAIL_LETTERS = 22;

/** For the head of a lane: what tells it from its neighbours is at its end. */
export function tailName(name: string | null | undefined): string {
  const parts = shortName(name).split("::");
  while (parts.length > 1 && parts.join("::").length > TAIL_LETTERS) parts.shift();
  return parts.join("::");
}

const ROOT_BIT = 2 ** 39; // KY_TASK_ID_ROOT

/** "task 7"; of the future of a block_on "root 1", as reports have it. */
export function taskWords(id: number): string {
  return id >= ROOT_BIT && id < 2 * ROOT_BIT ? `root ${id % 2 ** 32}` : `task ${id}`;
}

/** The last parts of a path. */
export function shortFile(file: string): string {
  const parts = file.split("/");
  return parts.length > 4 ? `…/${parts.slice(-3).join("/")}` : file;
}
