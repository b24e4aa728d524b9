// The theme's download button only opens a notebook, as text, in a new tab, and from file:// a page
// may not even read it. The build therefore puts each notebook beside itself as a script that calls
// saveNotebook.
window.saveNotebook = (name, text) => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/x-ipynb+json" }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
};

document.addEventListener("DOMContentLoaded", () => {
  for (const button of document.querySelectorAll("[data-prints]")) {
    button.addEventListener("click", () => window.print());
  }
  for (const link of document.querySelectorAll("a.btn-download-source-button[href$='.ipynb']")) {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      const script = document.createElement("script");
      script.src = `${link.href}.js`;
      script.addEventListener("load", () => script.remove());
      document.head.append(script);
    });
  }
});

// A picture that moves can be stopped, and played where the reader's system asks for stillness: its other file
// is the last frame. It plays from its beginning, since a file that is shown anew does.
document.addEventListener("DOMContentLoaded", () => {
  for (const picture of document.querySelectorAll("picture:has(> img.animation)")) {
    const image = picture.querySelector("img"), still = picture.querySelector("source");
    const moving = image.src, last = still.srcset;
    const button = document.createElement("button");
    let plays = !matchMedia(still.media).matches;
    const set = () => {
      image.src = plays ? moving : last;
      button.textContent = plays ? "❚❚ Stop" : "▶ Play";
      button.setAttribute("aria-label", `${plays ? "Stop" : "Play"} the animation`);
    };
    still.remove();
    button.type = "button";
    button.className = "animation-button";
    button.addEventListener("click", () => {
      plays = !plays;
      set();
    });
    picture.after(button);
    set();
  }
});

// From file:// the search may not read the pages it finds: it lists their titles only.
if (location.protocol === "file:") {
  DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
}
