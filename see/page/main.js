// SPDX-License-Identifier: MIT
// Joins the parts: what a person has chosen (ui), what the server tells (world), and which part is to be drawn again. Events only mark parts
// as dirty; they are drawn once for each frame, so a burst of events costs one drawing.

import { Charts } from "./charts.js";
import { Detail } from "./detail.js";
import { Dialogs } from "./dialogs.js";
import { Doctor } from "./doctor.js";
import { plainName, whoText } from "./format.js";
import { Graph } from "./graph.js";
import { Head } from "./head.js";
import { fillHints, fillKeys, listen } from "./keys.js";
import { NameList, phone } from "./list.js";
import { mark } from "./marks.js";
import { ORDERS } from "./order.js";
import { Side } from "./side.js";
import { circleSince, World } from "./store.js";
import { Stream } from "./stream.js";
import { fillTexts, language, setLanguage, t } from "./text.js";

const $ = (id) => document.getElementById(id);
const THEMES = ["system", "dark", "light"];
const TABS = ["names", "graph", "charts", "doctor"];
const EVERYTHING = ["head", "list", "detail", "graph", "charts", "doctor", "side"];
const DIRTY = { hello: EVERYTHING, state: ["head", "doctor", "list", "side", "graph"], names: ["head", "list", "detail", "side"], detail: ["detail"], graph: ["graph", "doctor", "charts", "head"], history: ["charts"], doctor: ["doctor", "head", "side"] };

const ui = { store: null, state: null, search: "", sort: "trouble", open: null, side: false, tab: "names" };
const world = new World();
const dirty = new Set();
let frame = 0;
let announced = [];

// ---- what a person has chosen and wants to find again; never a token

function remember(key, value) {
  try {
    localStorage.setItem(`holdfast.${key}`, value);
  } catch (error) {
    // Without storage the choice lasts as long as the page.
  }
}

function recall(key) {
  try {
    return localStorage.getItem(`holdfast.${key}`);
  } catch (error) {
    return null;
  }
}

// ---- the parts

const stream = new Stream({ event: received, status: statusChanged });
const dialogs = new Dialogs({ break: $("break"), token: $("token"), toast: $("toast") }, stream);
const detail = new Detail($("detail"), { break: (row, holder, told) => dialogs.askBreak(store(), row, holder, told, world.now(store())), token: () => dialogs.askToken(false) });
const list = new NameList({ scroll: $("rows"), changes: $("changes"), view: $("view"), over: $("over") }, { open, clear: clearFilter });
const graph = new Graph({ tag: $("graph-tag"), body: $("graph-body"), says: $("graph-says") });
const full = new Graph({ tag: $("full-tag"), body: $("full-body"), says: $("full-says") }, true);
const charts = new Charts($("charts"));
const doctor = new Doctor({ strip: $("strip"), page: $("doctor-body") }, { graph: () => showGraph(), doctor: () => showDoctor() });
const head = new Head({ stores: $("stores"), live: $("live"), filters: $("filters") }, { store: chooseStore, side: toggleSide, state: chooseState, retry: () => (head.status.state === "refused" ? dialogs.askToken(false) : stream.retryNow()) });
const side = new Side($("side"), { open: (id, key) => { chooseStore(id); if (key !== null) open(key); } });

function store() {
  return world.store(ui.store) ?? world.stores[0] ?? null;
}

// ---- from the server

function received(event, data) {
  const changed = world.apply(event, data);
  if (!changed) return;
  if (changed === "hello" && !world.store(ui.store)) ui.store = world.stores[0]?.id ?? null;
  // What its engine can do was not known when the stream began.
  const told = world.store(data.store);
  if (changed === "state" && told.up && !told.opened) {
    told.opened = true;
    stream.run();
  }
  touch(...DIRTY[changed].filter((part) => part !== "detail" || changed !== "names" || ui.open !== null));
}

function statusChanged(status) {
  if (status.state !== "live" && status.state !== "connecting") world.stop();
  document.body.classList.toggle("away", status.state === "waiting" || status.state === "refused");
  head.setStatus(status);
  if (status.state === "refused") refused();
  touch("doctor");
}

// Without a token one may still be allowed to read: so a wrong one does not make the page blind.
function refused() {
  const wrong = stream.token !== "";
  if (!$("token").open) dialogs.askToken(wrong);
  if (wrong) stream.setToken("");
}

// Screen readers hear new deadlocks and losses, and nothing else.
world.on_deadlock = (where, circle) => {
  const by_id = new Map(where.graph.nodes.map((node) => [node.id, node]));
  announce(t("new_deadlock", circle.nodes.map((id) => whoText(by_id.get(id))).join(", ")));
};
world.on_loss = (where, row) => announce(t("new_loss", plainName(row)));

function announce(text) {
  announced = [...announced.slice(-4), text];
  $("announce").textContent = announced.join(". ");
}

// ---- drawing

function touch(...parts) {
  for (const part of parts) dirty.add(part);
  if (!frame && !document.hidden) frame = requestAnimationFrame(draw);
}

function draw() {
  frame = 0;
  const now = store();
  const has = (part) => dirty.has(part);
  if (has("head")) head.show(world, ui);
  if (has("head") || has("list")) head.filters(now, ui);
  if (has("list")) drawList(now);
  if (has("detail")) detail.show(now, ui.open, world);
  if (has("graph")) {
    graph.show(now, world);
    if ($("full").open) full.show(now, world);
  }
  if (has("charts")) drawCharts(now);
  if (has("doctor")) doctor.show(now, world);
  if (has("side") && ui.side) side.show(world);
  if (has("head") || has("graph") || has("doctor")) badges(now);
  dirty.clear();
}

function drawList(now) {
  document.body.classList.toggle("stale", now !== null && !now.up);
  list.show(now, world, ui);
  $("sort").textContent = `${t(`sort_${ui.sort}`)} ▾`;
}

function drawCharts(now) {
  const moments = now ? now.graph.circles.map((circle) => circleSince(now.graph, circle)).filter(Boolean) : [];
  charts.show(now, now ? world.now(now) : world.clock(), moments.length ? Math.max(...moments) : null);
}

function badges(now) {
  const circles = now?.graph.circles.length ?? 0;
  $("badge-graph").hidden = circles === 0;
  $("badge-graph").textContent = String(circles);
  const found = doctor.count();
  $("badge-doctor").hidden = found === "0";
  $("badge-doctor").textContent = found;
}

function tick() {
  head.tick();
  if (document.hidden) return;
  doctor.tick();
  if (ui.side) return side.tick();
  list.refresh();
  list.tick();
  detail.tick();
  graph.tick();
  full.tick();
}

// ---- what a person does

function chooseStore(id) {
  if (!world.store(id)) return;
  if (ui.store !== id) {
    ui.store = id;
    list.cursor = null;
    open(null);
  }
  setSide(false);
  touch(...EVERYTHING);
}

function open(key) {
  ui.open = key;
  stream.setOpen(store()?.id ?? "", store() ? key : null);
  placeDetail();
  touch("list", "detail");
}

// Beside the list where there is room, and on a phone below its row.
function placeDetail() {
  if (!phone.matches && $("detail").parentNode !== $("beside")) $("beside").prepend($("detail"));
  $("detail").hidden = phone.matches && ui.open === null;
  list.setOpened(ui.open, $("detail"));
}

function chooseState(state) {
  ui.state = state;
  touch("list");
}

function clearFilter() {
  ui.state = null;
  ui.search = $("search").value = "";
  touch("list");
}

function chooseSort() {
  ui.sort = ORDERS[(ORDERS.indexOf(ui.sort) + 1) % ORDERS.length];
  touch("list");
}

function setSide(on) {
  ui.side = on && world.stores.length > 1;
  document.body.classList.toggle("side", ui.side);
  $("side").hidden = !ui.side;
  touch("head", "side");
}

function toggleSide() {
  setSide(!ui.side);
  if (!ui.side) touch(...EVERYTHING);
}

function showTab(tab) {
  ui.tab = tab;
  document.body.dataset.tab = tab;
  for (const each of TABS) $(`tab-${each}`).setAttribute("aria-pressed", String(each === tab));
  touch("graph", "charts", "list");
}

function showGraph() {
  if (phone.matches) return showTab("graph");
  if (!$("full").open) $("full").showModal();
  touch("graph");
}

function showDoctor() {
  if (phone.matches) return showTab("doctor");
  if (!$("doctor").open) $("doctor").showModal();
}

function applyTheme(theme) {
  if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  remember("theme", theme);
}

function applyLanguage(code) {
  setLanguage(code);
  remember("language", code);
  fillTexts();
  fillHints($("hints"));
  fillKeys($("keys-body"));
  $("language").textContent = code === "zh" ? "EN" : "中";
  touch(...EVERYTHING);
}

function nextTheme() {
  const theme = document.documentElement.dataset.theme ?? "system";
  applyTheme(THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length]);
}

const back = () => {
  if ($("search").value || document.activeElement === $("search")) {
    $("search").blur();
    return clearFilter();
  }
  if (ui.side) return toggleSide();
  if (ui.state) return chooseState(null);
  list.last_key = -Infinity;
  open(null);
};

function wire() {
  for (const node of document.querySelectorAll("[data-mark]")) node.prepend(mark(node.dataset.mark, Number(node.dataset.size ?? 16)));
  $("search").addEventListener("input", () => { ui.search = $("search").value; touch("list"); });
  $("find").addEventListener("click", () => { document.body.classList.add("searching"); $("search").focus(); });
  $("search").addEventListener("blur", () => { if (!$("search").value) document.body.classList.remove("searching"); });
  $("sort").addEventListener("click", chooseSort);
  $("theme").addEventListener("click", nextTheme);
  $("language").addEventListener("click", () => applyLanguage(language() === "zh" ? "en" : "zh"));
  $("help").addEventListener("click", () => $("keys").showModal());
  $("full-button").addEventListener("click", showGraph);
  for (const tab of TABS) $(`tab-${tab}`).addEventListener("click", () => showTab(tab));
  for (const button of document.querySelectorAll("dialog .close")) button.addEventListener("click", () => button.closest("dialog").close());
  const page = () => Math.max(1, Math.floor($("rows").clientHeight / list.rowHeight()) - 1);
  const move = (step) => { if (!ui.side) list.move(step); };
  listen({
    down: () => move(1), up: () => move(-1), page_down: () => move(page()), page_up: () => move(-page()), first: () => move(-Infinity), last: () => move(Infinity),
    open: () => { if (list.cursor !== null) open(list.cursor); document.activeElement === $("search") && $("rows").focus(); }, back,
    search: () => { document.body.classList.add("searching"); $("search").focus(); $("search").select(); }, sort: chooseSort, graph: showGraph, doctor: showDoctor,
    side: toggleSide, theme: nextTheme, language: () => applyLanguage(language() === "zh" ? "en" : "zh"), keys: () => $("keys").showModal(),
    store: (index) => world.stores[index] && chooseStore(world.stores[index].id),
  });
  phone.addEventListener("change", () => { placeDetail(); touch(...EVERYTHING); });
  document.addEventListener("visibilitychange", () => touch(...EVERYTHING));
  new ResizeObserver(() => touch("graph", "charts")).observe($("main"));
}

applyTheme(recall("theme") ?? "system");
wire();
applyLanguage(recall("language") ?? (navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en"));
showTab("names");
placeDetail();
setInterval(tick, 1000);
stream.start();
