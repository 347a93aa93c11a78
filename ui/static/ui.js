// The page works without this script. With it, what is shown is loaded again when the server says that it has changed,
// times go on between, and keys move through the rows. Nothing is asked of the server while the page is not visible.
"use strict";

const stream = document.body.dataset.stream;
const live = document.getElementById("live");
let source, paused = false, loading = false, again = false;

function say(text, bad) {
  if (!live) return;
  live.textContent = text;
  live.classList.toggle("bad", !!bad);
}

// short is a duration as the server writes it.
function short(s) {
  s = Math.max(0, s);
  if (s < 10) return s.toFixed(1).replace(/\.0$/, "") + "s";
  if (s < 60) return Math.round(s) + "s";
  const whole = Math.round(s), h = Math.floor(whole / 3600), m = Math.floor(whole % 3600 / 60);
  if (s < 3600) return m + "m" + (whole % 60 ? whole % 60 + "s" : "");
  if (s < 48 * 3600) return h + "h" + (m ? m + "m" : "");
  return Math.floor(s / 86400) + "d";
}

// ahead is how far this browser's clock is ahead of the server's.
let ahead = 0;

function tick() {
  if (paused || document.hidden) return;
  const now = Date.now() - ahead;
  for (const t of document.querySelectorAll("time[data-age], time[data-left]")) {
    const text = short((now - Date.parse(t.dateTime)) / (t.matches("[data-left]") ? -1000 : 1000));
    if (t.textContent !== text) t.textContent = text;
  }
}

// load puts the page as it is now in place of what is shown, but for what the visitor is at.
async function load() {
  if (pressed) { held = true; return; }
  if (loading) { again = true; return; }
  loading = true;
  try {
    const r = await fetch(location.href, {headers: {Accept: "text/html"}, redirect: "error"});
    if (!r.ok) throw new Error(r.status === 401 ? "signed out" : "error " + r.status);
    const said = Date.parse(r.headers.get("Date"));
    if (Math.abs(Date.now() - said - ahead) > 2000) ahead = Date.now() - said;
    const page = new DOMParser().parseFromString(await r.text(), "text/html");
    if (paused) return;
    if (pressed) { held = true; return; }
    replace(document.getElementById("main"), page.getElementById("main"));
    tick();
    say("live");
  } catch (e) {
    say("not up to date: " + e.message, true);
  } finally {
    loading = false;
    if (again) { again = false; load(); }
  }
}

// While a button or a link is pressed the page stays as it is, or the press would be lost.
let pressed = false, held = false, letGo;

document.addEventListener("pointerdown", () => { pressed = true; clearTimeout(letGo); });
for (const end of ["pointerup", "pointercancel"]) document.addEventListener(end, () => letGo = setTimeout(() => {
  pressed = false;
  if (held) { held = false; load(); }
}));

// shell is an element without what is in it.
const shell = e => e.cloneNode(false).outerHTML;

// replace changes the smallest parts of a page that differ. A form is left as it is, with what the visitor has typed.
function replace(old, next) {
  const a = [...old.children], b = [...next.children];
  const text = [...old.childNodes, ...next.childNodes].some(n => n.nodeType === Node.TEXT_NODE && n.data.trim());
  if (text || a.length !== b.length || a.some((e, i) => shell(e) !== shell(b[i]))) {
    const kept = old.querySelector("form:not([data-stays])");
    const focus = kept && kept.contains(document.activeElement);
    if (focus) return;
    swap(old, next);
    return;
  }
  a.forEach((e, i) => {
    if (e.tagName !== "FORM" && e.outerHTML !== b[i].outerHTML) replace(e, b[i]);
  });
}

function swap(old, next) {
  const at = document.activeElement, href = at && old.contains(at) && at.getAttribute("href");
  const sides = [...old.querySelectorAll(".picture")].map(p => [p.scrollLeft, p.scrollTop]);
  old.replaceChildren(...next.childNodes);
  [...old.querySelectorAll(".picture")].forEach((p, i) => { if (sides[i]) [p.scrollLeft, p.scrollTop] = sides[i]; });
  if (href) for (const e of old.querySelectorAll("a")) if (e.getAttribute("href") === href) { e.focus({preventScroll: true}); break; }
}

function listen() {
  if (!stream || source || paused || document.hidden) return;
  source = new EventSource(stream);
  source.addEventListener("state", load);
  source.addEventListener("away", e => say("not up to date: " + JSON.parse(e.data).error, true));
  source.onerror = () => say("not up to date: no connection", true);
}

function deafen() {
  if (source) source.close();
  source = undefined;
}

document.addEventListener("visibilitychange", () => document.hidden ? deafen() : listen());
window.addEventListener("pagehide", deafen);
window.addEventListener("pageshow", listen);
setInterval(tick, 250);

const rows = () => [...document.querySelectorAll("tbody a.row")];

function move(by) {
  const all = rows(), at = all.indexOf(document.activeElement);
  const next = all[at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, at + by))];
  if (next) next.focus();
}

document.addEventListener("keydown", e => {
  if (e.ctrlKey || e.metaKey || e.altKey) return;
  const types = /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName);
  if (e.key === "Escape" && types) { e.target.blur(); return; }
  if (types) return;
  switch (e.key) {
  case "j": case "ArrowDown": if (!rows().length) return; move(1); break;
  case "k": case "ArrowUp": if (!rows().length) return; move(-1); break;
  case "u": { const up = document.querySelector("[data-up]"); if (!up) return; up.click(); break; }
  case "/": { const f = document.querySelector("[data-filter]"); if (!f) return; f.focus(); f.select(); break; }
  case " ":
    if (!stream || /^(A|BUTTON|SUMMARY)$/.test(e.target.tagName)) return;
    paused = !paused;
    if (paused) { deafen(); say("paused"); } else { listen(); load(); }
    break;
  default: return;
  }
  e.preventDefault();
});

// A form that stays is sent without leaving the page.
document.addEventListener("submit", async e => {
  if (!e.target.matches("form[data-stays]")) return;
  e.preventDefault();
  try {
    const r = await fetch(e.target.action, {method: "POST", body: new URLSearchParams(new FormData(e.target, e.submitter))});
    if (!r.ok) throw new Error("error " + r.status);
    load();
  } catch (wrong) {
    say("not done: " + wrong.message, true);
  }
});

// A form that is sent leaves empty fields out of the address.
for (const f of document.querySelectorAll("form[method=get]")) f.addEventListener("submit", () => {
  for (const i of f.elements) if (i.name && !i.value) i.disabled = true;
});
