// Work away from the page's thread. A page on disk may load no other file, so a worker is made of the
// text of the function that all modules stand in (bundle.py).

/* global bundle */

// A worker that begins with main(what the explorer's module exports).
export function startWorker(main) {
  const address = URL.createObjectURL(
    new Blob([`${bundle}\n(${main})(bundle());`], { type: "text/javascript" }),
  );
  const made = new Worker(address);
  URL.revokeObjectURL(address);
  return made;
}

const serve = (all) => {
  let shared = null;
  onmessage = ({ data: { name, state, given } }) => {
    if (name) postMessage(all[name](state, shared));
    else shared = given;
  };
};

// `ask(state)` has the module's function `name` answer hear(result, state); while it is at work only the newest
// question is kept. It says false, and an answer that fails is null, where the browser refuses a worker.
export function inWorker(name, given, hear) {
  let hand = null, asked = null, next = null, wanted = true, refused = false;
  const send = (state) => {
    [asked, wanted] = [{ ...state }, true];
    hand.postMessage({ name, state: asked });
  };
  function begin() {
    hand = startWorker(serve);
    hand.onerror = () => {
      stop();
      refused = true;
      hear(null);
    };
    hand.onmessage = ({ data }) => {
      const of = asked, now = wanted;
      asked = null;
      if (next) send(next);
      next = null;
      if (now) hear(data, of);
    };
    hand.postMessage({ given });
  }
  function stop() {
    hand?.terminate();
    hand = asked = next = null;
  }
  return {
    ask(state) {
      if (asked) next = { ...state };
      else {
        try {
          if (!refused && !hand) begin();
          if (hand) send(state);
        } catch {
          refused = true;
        }
      }
      return !refused;
    },
    forget() {
      [next, wanted] = [null, false];
    }, // what is asked is answered to nobody
    waits: () => Boolean(asked && wanted) || next !== null,
    stop,
  };
}
