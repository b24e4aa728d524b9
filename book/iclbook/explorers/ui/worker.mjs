// @ts-check
// Work in a worker, so that the page goes on meanwhile. A page opened from disk may load no other
// file, so a worker is made of the text of the function that all modules stand in (bundle.py).

/** @import { Settings } from "../types.d.ts" */

/** A worker that begins with main(what the explorer's module exports). */
export function startWorker(main) {
  // @ts-ignore: the function around all modules
  const text = `${bundle}\n(${main})(bundle());`;
  const address = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
  const worker = new Worker(address);
  URL.revokeObjectURL(address);
  return worker;
}

/** What the worker does: first it is given data, then it answers questions about settings. */
const serve = (exported) => {
  let data = null;
  onmessage = ({ data: { name, state, given } }) => {
    if (name) postMessage(exported[name](state, data));
    else data = given;
  };
};

/**
 * Has a worker call the function `name` of the explorer's module and answer with
 * receive(result, settings). While it works, only the newest question is kept. If the browser refuses
 * a worker, `ask` returns false, and a question that fails is answered with null.
 * @param {string} name @param {any} given data for the function, after the settings
 * @param {(result: any, state?: Settings) => void} receive
 */
export function inWorker(name, given, receive) {
  /** @type {Worker | null} */
  let worker = null;
  /** @type {Settings | null} */
  let asked = null, next = null;
  let isWanted = true, isRefused = false;
  function send(state) {
    asked = { ...state };
    isWanted = true;
    worker.postMessage({ name, state: asked });
  }
  function begin() {
    worker = startWorker(serve);
    worker.onerror = () => {
      stop();
      isRefused = true;
      receive(null);
    };
    worker.onmessage = ({ data }) => {
      const state = asked, wanted = isWanted;
      asked = null;
      if (next) send(next);
      next = null;
      if (wanted) receive(data, state);
    };
    worker.postMessage({ given });
  }
  function ask(state) {
    if (asked) {
      next = { ...state };
      return !isRefused;
    }
    try {
      if (!isRefused && !worker) begin();
      if (worker) send(state);
    } catch {
      isRefused = true;
    }
    return !isRefused;
  }
  function stop() {
    worker?.terminate();
    worker = asked = next = null;
  }
  /** Drops the answer to a question that is no longer of interest. */
  function forget() {
    next = null;
    isWanted = false;
  }
  const isBusy = () => Boolean(asked && isWanted) || next !== null;
  return { ask, forget, isBusy, stop };
}
