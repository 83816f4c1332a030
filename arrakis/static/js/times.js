// <time datetime data-age>: the server wrote an age; this keeps it true while the page stays open or comes from a cache.
const STEPS = [["second", 60], ["minute", 60], ["hour", 24], ["day", 30], ["month", 12], ["year", Infinity]];
const EVERY_MS = 15000;

const words = new Intl.RelativeTimeFormat(document.documentElement.lang, { numeric: "always" });

function age(then) {
  let past = Math.max(1, Math.round((Date.now() - then) / 1000));
  for (const [unit, size] of STEPS) {
    if (past < size) return words.format(-past, unit);
    past = Math.floor(past / size);
  }
  return "";
}

function refresh() {
  for (const time of document.querySelectorAll("time[data-age]")) {
    const then = Date.parse(time.dateTime);
    if (!Number.isNaN(then)) time.textContent = age(then);
  }
}

refresh();
setInterval(refresh, EVERY_MS);
document.addEventListener("visibilitychange", () => document.hidden || refresh());
