// SPDX-License-Identifier: Apache-2.0 OR MIT
// The page while there is no trace: where to drop one, how far it is, why it cannot be read.
import type { Store } from "../app/store";
import { bytes } from "../model/time";
import { chooseFile } from "./top";

export function Start({ store }: { store: Store }) {
  const { doing, done, all } = store.progress;
  if (store.phase === "loading")
    return (
      <main class="start">
        <p role="status">
          {doing} {store.fileName}: {bytes(done)} of {bytes(all)}
        </p>
        <progress value={done} max={Math.max(1, all)} />
        <button onClick={() => store.cancel()}>Cancel</button>
      </main>
    );
  return (
    <main class="start">
      {store.phase === "failed" && (
        <p class="wrong" role="alert">
          {store.sentence}
        </p>
      )}
      <p class="drop">Drop a trace here</p>
      <p class="faint">
        a .trc, .trc.zst or .trc.gz file of kymo, or one of dial9. It stays on this machine: the
        page has no network.
      </p>
      <button class="main" onClick={() => chooseFile(store)}>
        Open a file
      </button>
    </main>
  );
}
