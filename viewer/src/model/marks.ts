// SPDX-License-Identifier: Apache-2.0 OR MIT
// Notes that a user sets at moments, as the URL holds them: TIME!TEXT,TIME!TEXT.

export interface Note {
  time: number;
  text: string;
}

export function notesOf(option: string): Note[] {
  return option.split(",").flatMap((one) => {
    const match = /^(\d+)!(.*)$/.exec(one);
    if (!match) return [];
    try {
      return [{ time: Number(match[1]), text: decodeURIComponent(match[2] ?? "") }];
    } catch {
      return []; // a torn link
    }
  });
}

export function optionOf(notes: readonly Note[]): string {
  return [...notes]
    .sort((a, b) => a.time - b.time)
    .map((one) => `${Math.round(one.time)}!${encodeURIComponent(one.text)}`)
    .join(",");
}
