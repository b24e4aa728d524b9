// A button stops an animation and plays it from its beginning. The second file of the picture is the last frame;
// where the reader's system asks for reduced motion, the page shows that frame first.
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

// On a page from disk the search may not read other pages, so it lists only the titles of what it finds.
if (location.protocol === "file:") {
  DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
}
