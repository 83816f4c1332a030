// <button data-copy="ID OF THE SOURCE" data-done="Copied" hidden>: shown only where copying can work.
const SHOWN_MS = 2000;

async function copy(button) {
  const source = document.getElementById(button.dataset.copy);
  if (!source) return;
  try {
    await navigator.clipboard.writeText(source.textContent.trim());
  } catch {
    getSelection()?.selectAllChildren(source);
    return;
  }
  if (!button.dataset.done || button.dataset.label) return;
  button.dataset.label = button.textContent;
  button.textContent = button.dataset.done;
  setTimeout(() => {
    button.textContent = button.dataset.label;
    delete button.dataset.label;
  }, SHOWN_MS);
}

if (navigator.clipboard) {
  for (const button of document.querySelectorAll("[data-copy][data-done]")) button.hidden = false;
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy][data-done]");
    if (button) copy(button);
  });
}
