// SPDX-License-Identifier: MIT
// The keyboard: the same letters as in `holdfast top`. A key does nothing while a person types, except Escape.

import { el } from "./format.js";
import { t } from "./text.js";

export const KEYS = [
  [["j", "k", "↓", "↑"], "key_move"], [["Enter"], "key_open"], [["Esc"], "key_back"], [["/"], "key_search"], [["s"], "key_sort"], [["g"], "key_graph"],
  [["d"], "key_doctor"], [["1", "…", "9"], "key_stores"], [["v"], "key_side"], [["t"], "key_theme"], [["l"], "key_language"], [["?"], "key_keys"],
];

const NAMES = {
  j: "down", ArrowDown: "down", k: "up", ArrowUp: "up", PageDown: "page_down", PageUp: "page_up", Home: "first", End: "last",
  Enter: "open", Escape: "back", "/": "search", s: "sort", g: "graph", d: "doctor", v: "side", t: "theme", l: "language", "?": "keys",
};

// on[action](): what each key does; on.store(index) for 1 to 9.
export function listen(on) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const target = event.target;
    const types = target.matches?.("input, textarea, select");
    const action = NAMES[event.key];
    if (types && !(action === "back" || (action === "open" && target.id === "search"))) return;
    if (document.querySelector("dialog[open]")) return; // it has its own Escape and Enter
    if (action === "open" && target.matches?.("button, a, summary")) return;
    if (/^[1-9]$/.test(event.key)) {
      event.preventDefault();
      on.store(Number(event.key) - 1);
    } else if (action) {
      event.preventDefault();
      on[action]();
    }
  });
}

export function fillKeys(node) {
  node.replaceChildren(...KEYS.map(([keys, text]) => el("div.key-line", el("span.keys", keys.map((key) => (key === "…" ? " … " : el("kbd", key)))), el("span", t(text)))));
}

// The few that stand below the list.
export function fillHints(node) {
  const few = [["key_move", ["j", "k"]], ["key_open", ["↵"]], ["key_graph", ["g"]], ["key_sort", ["s"]], ["key_keys", ["?"]]];
  node.replaceChildren(...few.map(([text, keys]) => el("span", keys.map((key) => el("kbd", key)), ` ${t(text)}`)));
}
