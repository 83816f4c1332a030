// In the head and not a module, so that the chosen theme is there before the first paint. "auto" follows the system.
(() => {
  const root = document.documentElement;
  const read = () => {
    try { return localStorage.getItem("theme"); } catch { return null; }
  };
  const chosen = read();
  if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;

  const isDark = () => root.dataset.theme === "dark"
    || (root.dataset.theme !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  const mark = (button) => button.setAttribute("aria-pressed", String(isDark()));

  document.addEventListener("DOMContentLoaded", () => {
    for (const button of document.querySelectorAll("[data-theme-toggle]")) {
      button.hidden = false;
      mark(button);
      button.addEventListener("click", () => {
        root.dataset.theme = isDark() ? "light" : "dark";
        try { localStorage.setItem("theme", root.dataset.theme); } catch { /* private mode: for this page only */ }
        mark(button);
      });
    }
  });
})();
