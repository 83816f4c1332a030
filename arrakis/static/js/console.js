// The console's own: what is running is kept fresh, forms are sent once, a dialog asks before stopping.
// Without this module every page still works by reload, and stopping asks on a page of its own.

const EVERY_MS = 1500;
const SLOWEST_MS = 30000;

function keepFresh(box) {
  let wait = EVERY_MS;

  async function refresh() {
    if (document.hidden) return later();
    try {
      const answer = await fetch(box.dataset.live, { headers: { "X-Requested-With": "fetch" }, cache: "no-store" });
      if (answer.redirected || [401, 403, 404].includes(answer.status)) return undefined;
      if (!answer.ok) throw new Error(String(answer.status));
      show(await answer.text());
      wait = EVERY_MS;
    } catch {
      wait = Math.min(wait * 2, SLOWEST_MS);
    }
    return later();
  }

  function show(html) {
    const next = new DOMParser().parseFromString(html, "text/html").body;
    if (next.innerHTML === box.dataset.shown) return;
    box.dataset.shown = next.innerHTML;
    const focused = box.contains(document.activeElement) || box.contains(getSelection()?.anchorNode ?? null);
    if (focused && !getSelection()?.isCollapsed) return;
    patch(box, next);
  }

  function later() {
    const over = box.firstElementChild?.dataset.over === "1";
    if (!over) setTimeout(refresh, wait);
    else location.replace(location.pathname); // not a reload: the page may be the answer to a form
  }

  if (box.firstElementChild?.dataset.over !== "1") setTimeout(refresh, EVERY_MS);
}

// Changes only what differs, so that focus, scroll and what a screen reader has said already stay.
function patch(from, to) {
  const old = [...from.childNodes];
  const fresh = [...to.childNodes];
  fresh.forEach((node, i) => {
    const mine = old[i];
    if (!mine) from.append(document.importNode(node, true));
    else if (mine.nodeType !== node.nodeType || mine.nodeName !== node.nodeName) mine.replaceWith(document.importNode(node, true));
    else if (node.nodeType === Node.TEXT_NODE) {
      if (mine.data !== node.data) mine.data = node.data;
    } else if (node.nodeType === Node.ELEMENT_NODE) {
      attributes(mine, node);
      patch(mine, node);
    }
  });
  old.slice(fresh.length).forEach((node) => node.remove());
}

function attributes(mine, node) {
  if (mine.matches("input[name=csrfmiddlewaretoken]")) return;
  for (const { name } of [...mine.attributes]) {
    // What a person opened stays open.
    if (!node.hasAttribute(name) && !(name === "open" && mine.matches("[data-keep]"))) mine.removeAttribute(name);
  }
  for (const { name, value } of node.attributes) {
    if ((name === "hidden" && mine.matches("[data-copy]")) || (name === "open" && mine.matches("[data-keep]"))) continue;
    if (mine.getAttribute(name) !== value) mine.setAttribute(name, value);
  }
}

// Copy buttons that came with a refresh; copy.js shows those that were there at first.
function wire(root) {
  if (navigator.clipboard) root.querySelectorAll("[data-copy][hidden]").forEach((button) => button.removeAttribute("hidden"));
}

document.addEventListener("click", (event) => {
  const opener = event.target.closest("[data-dialog]");
  const dialog = opener && document.getElementById(opener.dataset.dialog);
  if (dialog?.showModal) {
    event.preventDefault();
    dialog.showModal();
  }
  const closer = event.target.closest("dialog [data-close]");
  if (closer) {
    event.preventDefault();
    closer.closest("dialog").close();
  }
});

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.dataset.confirm && !confirm(form.dataset.confirm)) return event.preventDefault();
  if (form.dataset.once !== undefined) {
    if (form.dataset.sent) return event.preventDefault();
    form.dataset.sent = "1";
    form.querySelectorAll("button").forEach((button) => button.setAttribute("aria-disabled", "true"));
  }
  return undefined;
});

// Back from the next page, the form may be sent again.
window.addEventListener("pageshow", () => document.querySelectorAll("[data-sent]").forEach((form) => {
  delete form.dataset.sent;
  form.querySelectorAll("button").forEach((button) => button.removeAttribute("aria-disabled"));
}));

document.addEventListener("change", (event) => {
  if (event.target.matches("form[data-resubmit] input[type=radio]")) event.target.form.requestSubmit();
});

document.querySelectorAll("[data-live]").forEach((box) => {
  keepFresh(box);
  new MutationObserver(() => wire(box)).observe(box, { childList: true, subtree: true });
});
