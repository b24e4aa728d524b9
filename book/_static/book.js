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

// From file:// the search may not read the pages it finds: it lists their titles only.
if (location.protocol === "file:") {
  DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
}
