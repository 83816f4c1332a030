// [data-tabs] holds [data-tab="Name"] panels, all of them readable without this; here they become tabs.
// The choice is remembered for the whole site, since whoever uses SGLang uses it on every page.
let made = 0;

function remembered() {
  try { return localStorage.getItem("engine"); } catch { return null; }
}

function remember(name) {
  try { localStorage.setItem("engine", name); } catch { /* private mode */ }
}

function make(box) {
  const panels = [...box.querySelectorAll(":scope > [data-tab]")];
  if (panels.length < 2) return;
  const list = document.createElement("div");
  list.className = "tabs";
  list.setAttribute("role", "tablist");
  if (box.dataset.tabs) list.setAttribute("aria-label", box.dataset.tabs);
  const tabs = panels.map((panel) => {
    made += 1;
    const tab = document.createElement("button");
    tab.type = "button";
    tab.id = `tab-${made}`;
    tab.textContent = panel.dataset.tab;
    tab.setAttribute("role", "tab");
    panel.id ||= `panel-${made}`;
    tab.setAttribute("aria-controls", panel.id);
    panel.setAttribute("role", "tabpanel");
    panel.setAttribute("aria-labelledby", tab.id);
    panel.querySelector(".code-name")?.remove();
    list.append(tab);
    return tab;
  });

  function choose(index, focus) {
    tabs.forEach((tab, i) => {
      tab.setAttribute("aria-selected", String(i === index));
      tab.tabIndex = i === index ? 0 : -1;
      panels[i].hidden = i !== index;
    });
    if (focus) tabs[index].focus();
  }

  list.addEventListener("click", (event) => {
    const index = tabs.indexOf(event.target.closest("[role=tab]"));
    if (index < 0) return;
    choose(index, false);
    remember(panels[index].dataset.tab);
  });
  list.addEventListener("keydown", (event) => {
    const forward = document.dir === "rtl" ? "ArrowLeft" : "ArrowRight";
    const back = document.dir === "rtl" ? "ArrowRight" : "ArrowLeft";
    const at = tabs.indexOf(document.activeElement);
    const to = { [forward]: at + 1, [back]: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (at < 0 || to === undefined) return;
    event.preventDefault();
    const index = (to + tabs.length) % tabs.length;
    choose(index, true);
    remember(panels[index].dataset.tab);
  });
  box.prepend(list);
  choose(Math.max(0, panels.findIndex((panel) => panel.dataset.tab === remembered())), false);
}

document.querySelectorAll("[data-tabs]").forEach(make);
