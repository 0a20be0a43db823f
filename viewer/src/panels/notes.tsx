// SPDX-License-Identifier: Apache-2.0 OR MIT
// Notes at moments, and what can be given away: a link, a picture, numbers, a page with the trace.
import type { Store } from "../app/store";
import { copyLink, saveJson, savePage, savePicture } from "../app/share";
import { notesOf, optionOf, type Note } from "../model/marks";
import { moment } from "../model/time";

export function addNote(store: Store): void {
  const selected = store.selection;
  const one = selected?.poll ?? selected?.span ?? selected?.run ?? selected?.event;
  const time = one?.start_ns ?? store.cursor ?? (store.view.from + store.view.to) / 2;
  const notes = notesOf(store.option("marks"));
  store.setOption("marks", optionOf([...notes, { time: Math.round(time), text: "" }]));
  store.setPanel("notes");
  requestAnimationFrame(() => {
    const inputs = document.querySelectorAll<HTMLInputElement>(".notes input");
    [...inputs].find((input) => !input.value)?.focus();
  });
}

export function NotesPanel({ store }: { store: Store }) {
  const notes = notesOf(store.option("marks"));
  const put = (list: Note[]): void => store.setOption("marks", optionOf(list));
  return (
    <section class="notes" aria-label="Notes">
      <div class="controls">
        <button onClick={() => addNote(store)}>
          Add a note <kbd>m</kbd>
        </button>
        <button onClick={() => void copyLink(store)}>
          Copy the link <kbd>y</kbd>
        </button>
        <button onClick={() => savePicture(store)}>
          Save a picture <kbd>i</kbd>
        </button>
        <button onClick={() => saveJson(store)}>
          Save as JSON <kbd>j</kbd>
        </button>
        <button
          onClick={() => void savePage(store)}
          title="one file with the viewer, the trace, this view and the notes"
        >
          Save page with trace and notes
        </button>
      </div>
      {!notes.length && (
        <p class="faint pad">
          A note stands at the selected poll, else in the middle of the view. Notes are part of the
          link and of the page that is saved.
        </p>
      )}
      <ol>
        {notes.map((note, at) => (
          <li key={note.time}>
            <button
              class="link"
              onClick={() => {
                const half = (store.view.to - store.view.from) / 2;
                store.cursor = note.time;
                store.setRange(note.time - half, note.time + half);
                store.changed();
              }}
            >
              {moment(note.time, store.clock, 1000)}
            </button>
            <input
              type="text"
              aria-label="note"
              value={note.text}
              onInput={(event) => {
                const text = event.currentTarget.value;
                put(notes.map((one, place) => (place === at ? { ...one, text } : one)));
              }}
            />
            <button
              aria-label="delete the note"
              onClick={() => put(notes.filter((_, place) => place !== at))}
            >
              ✕
            </button>
          </li>
        ))}
      </ol>
    </section>
  );
}
