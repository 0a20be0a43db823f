// SPDX-License-Identifier: Apache-2.0 OR MIT
// What the engine answers to a panel's question, asked once the question rests.
import { useEffect, useState } from "preact/hooks";
import type { Store } from "../app/store";

const REST_MS = 60;

/** null: nothing is asked. The answer before stays until the next one is there; isAsked says that
 * it is on its way. none: what stands for an answer that the engine does not have. */
export function useAnswer<T>(
  store: Store,
  question: Parameters<Store["ask"]>[0] | null,
  { rest = REST_MS, none = null }: { rest?: number; none?: T | null } = {},
): {
  answer: T | null;
  isAsked: boolean;
} {
  const key = JSON.stringify([store.id, question]);
  const [got, setGot] = useState<{ key: string; answer: T } | null>(null);
  useEffect(() => {
    let isOld = false;
    const timer = setTimeout(() => {
      if (question)
        void store.ask(question).then((said) => {
          const answer = (said as T | null) ?? none;
          if (!isOld && answer) setGot({ key, answer });
        });
    }, rest);
    return () => {
      isOld = true;
      clearTimeout(timer);
    };
  }, [key, store.report]);
  const isNow = got?.key === key;
  return { answer: question ? (got?.answer ?? null) : null, isAsked: question !== null && !isNow };
}
