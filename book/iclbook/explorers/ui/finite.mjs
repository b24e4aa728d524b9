// @ts-check
// A run on finite data that the reader asks for, drawn over the curves of the theory.

import { button } from "./dom.mjs";
import { inWorker } from "./worker.mjs";

/** @import { Finite, Model, Settings } from "../types.d.ts" */

/**
 * A worker of the page trains, or the page itself if the browser refuses a worker. Where the module has
 * no `finite`, a kernel trains. `say` tells the reader how it goes; `changed` is called when there are curves.
 * @param {{ model: Model, finite?: (state: Settings) => Finite, values: Settings,
 *   say: (words: string) => void, changed: () => void }} explorer
 */
export function createFiniteRun({ model, finite, values, say, changed }) {
  const kernel = !finite && typeof model.send === "function" && model.get("finite");
  /** @type {Finite["overlay"]} */
  let overlay = [];
  const worker = finite
    ? inWorker("finite", null, (found) => receive(found ?? finite(values)))
    : null;
  const run = (finite || kernel) ? button("Run on finite data", start, { class: "ex-run" }) : null;

  function start() {
    run.disabled = true;
    say("Training on finite data …");
    if (kernel) model.send({ run: true });
    // a pause, so that the words above are painted before the page stands still
    else if (!worker.ask(values)) setTimeout(() => receive(finite(values)), 30);
  }

  function receive(/** @type {Finite} */ found) {
    run.disabled = false;
    say(found.note ?? "");
    if (!found.overlay) return;
    overlay = found.overlay;
    changed();
  }

  /** Takes the curves away, since they are those of other settings. */
  function clear() {
    overlay = [];
    if (worker?.isBusy()) receive({});
    worker?.stop();
  }

  if (run && kernel) model.on("msg:custom", receive);
  const stop = () => {
    worker?.stop();
    if (run && kernel) model.off("msg:custom", receive);
  };
  return { button: run, overlay: () => overlay, clear, stop };
}
