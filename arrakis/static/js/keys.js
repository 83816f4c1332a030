// "/" goes to the search; Escape or a click elsewhere closes an open menu.
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    const open = document.querySelector("details.menu[open]");
    if (open) {
      open.open = false;
      open.querySelector("summary").focus();
    }
    return;
  }
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, textarea, select, [contenteditable]")) return;
  const search = [...document.querySelectorAll("[data-search]")].find((input) => input.checkVisibility());
  if (search) {
    event.preventDefault();
    search.focus();
    search.select();
  }
});

document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
});
