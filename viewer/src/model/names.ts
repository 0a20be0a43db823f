// SPDX-License-Identifier: Apache-2.0 OR MIT
// Names of futures and places for narrow room: the whole name is one click away.

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
  const plain = name.replace(closures, "").replace(/<.*>/, "<…>");
  const parts = plain.split("::");
  return parts.length > 3 ? parts.slice(-2).join("::") : plain;
}

/** The last parts of a path. */
export function shortFile(file: string): string {
  const parts = file.split("/");
  return parts.length > 4 ? `…/${parts.slice(-3).join("/")}` : file;
}
