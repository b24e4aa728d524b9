// Puts each explorer of a built page in the place of its picture. Plain scripts, so that pages work from disk.
window.explorers = {};
(() => {
  const folder = new URL("explorers/", document.currentScript.src);
  const wanted = {};
  const load = (name) => wanted[name] ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = new URL(`${name}.js`, folder);
    script.onload = () => resolve(window.explorers[name]);
    script.onerror = () => reject(new Error(`explorer ${name} is not beside the page`));
    document.head.append(script);
  });
  // What a kernel's model offers, without the kernel.
  const plain = (state) => {
    const held = { ...state };
    return { get: (key) => held[key], set: (key, value) => { held[key] = value; }, on() {}, off() {}, save_changes() {} };
  };
  const place = async () => {
    const seen = {};
    for (const el of document.querySelectorAll(".explorer[data-module]")) {
      const name = el.dataset.module;
      seen[name] = (seen[name] ?? 0) + 1;
      el.dataset.explorer = seen[name] > 1 ? `${name}-${seen[name]}` : name;
    }
    for (const el of document.querySelectorAll(".explorer[data-module]")) {
      const state = { ...JSON.parse(el.dataset.state), place: el.dataset.explorer };
      (await load(el.dataset.module))({ model: plain(state), el });
    }
  };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", place);
  else place();
})();
