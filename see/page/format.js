// SPDX-License-Identifier: MIT
// How values look: ages, numbers, tokens, names with bytes that are no text. Everything a peer has chosen becomes a text node here and
// nowhere markup. Pure but for the making of elements.

const SVG = "http://www.w3.org/2000/svg";

// el("td.age.late", "text", child, ...): an element with classes. No attribute here ever takes text of a peer as code.
export function el(spec, ...children) {
  const [tag, ...classes] = spec.split(".");
  const node = document.createElement(tag || "div");
  if (classes.length) node.className = classes.join(" ");
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

export function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

// Set the text only if it differs: an unchanged text node costs no layout. True if it was changed.
export function setText(node, text) {
  if (node.textContent === text) return false;
  node.textContent = text;
  return true;
}

// ---- ages and numbers: as the command prints them, two units at most

export function age(ms) {
  if (ms === null || ms === undefined || !Number.isFinite(ms)) return "–";
  if (ms < 0) ms = 0;
  if (ms < 1000) return `${Math.floor(ms)}ms`;
  if (ms < 10000) return `${(Math.floor(ms / 100) / 10).toFixed(1).replace(/\.0$/, "")}s`;
  const s = Math.floor(ms / 1000);
  if (s < 60) return `${s}s`;
  if (s < 3600) return two(Math.floor(s / 60), "m", s % 60, "s");
  if (s < 86400) return two(Math.floor(s / 3600), "h", Math.floor((s % 3600) / 60), "m");
  return two(Math.floor(s / 86400), "d", Math.floor((s % 86400) / 3600), "h");
}

// Where there is little room: from ten minutes on the larger unit alone.
export function shortAge(ms) {
  return ms >= 600000 ? age(ms).replace(/^(\d+[a-z]).*$/, "$1") : age(ms);
}

function two(large, unit, small, small_unit) {
  return small ? `${large}${unit}${small}${small_unit}` : `${large}${unit}`;
}

// The time of day, with 24 hours whatever the language.
export function clock(ms) {
  return new Date(ms).toTimeString().slice(0, 8);
}

// A percentile: two or three digits.
export function percentile(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms === 0) return "<1ms";
  if (ms < 1) return `${ms.toFixed(2).replace(/0$/, "")}ms`;
  if (ms < 10) return `${ms.toFixed(1).replace(/\.0$/, "")}ms`;
  return age(ms);
}

export function count(number) {
  return String(Math.trunc(Number(number))).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

export function rate(number) {
  if (number === null || number === undefined) return "–";
  return number > 0 && number < 10 ? number.toFixed(1).replace(/\.0$/, "") : count(Math.round(number));
}

// ---- names

// What must not reach the eye as itself: controls, marks that turn the direction, spaces of no width, lone surrogates, the tags.
const HIDDEN =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\uffff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]|\udb40[\udc00-\udfff]/g;

// The pieces of a text: {text} as it is, {byte} what a tinted box shows.
export function pieces(text) {
  const found = [];
  let from = 0;
  for (const match of text.matchAll(HIDDEN)) {
    if (match.index > from) found.push({ text: text.slice(from, match.index) });
    found.push({ byte: escape(match[0]) });
    from = match.index + match[0].length;
  }
  if (from < text.length) found.push({ text: text.slice(from) });
  return found;
}

function escape(text) {
  const code = text.codePointAt(0);
  if (text === "\n") return "\\n";
  if (text === "\t") return "\\t";
  if (text === "\r") return "\\r";
  return code < 0x100 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u{${code.toString(16)}}`;
}

// The same of bytes that are not UTF-8: what is ASCII is text, the rest are boxes.
function hexPieces(hex) {
  const found = [];
  for (let i = 0; i + 1 < hex.length; i += 2) {
    const byte = parseInt(hex.slice(i, i + 2), 16);
    if (byte >= 0x20 && byte < 0x7f) {
      if (found.length && found[found.length - 1].text) found[found.length - 1].text += String.fromCharCode(byte);
      else found.push({ text: String.fromCharCode(byte) });
    } else {
      found.push({ byte: escape(String.fromCharCode(byte)) });
    }
  }
  return found;
}

// `named`: {name, name_hex?}, as the server writes names.
export function namePieces(named) {
  return named.name_hex ? hexPieces(named.name_hex) : pieces(named.name ?? "");
}

// The name as a person can read it aloud and type it.
export function plainName(named) {
  return namePieces(named).map((piece) => piece.text ?? piece.byte).join("");
}

// A name that is too long loses its middle. `max` counts columns; a character of the East has two.
export function nameNodes(named, max = 0) {
  let list = namePieces(named);
  if (max && width(list) > max) list = cutMiddle(list, max);
  return list.map((piece) => (piece.text !== undefined ? document.createTextNode(piece.text) : el("span.byte", piece.byte)));
}

function columns(character) {
  return character.codePointAt(0) >= 0x1100 ? 2 : 1;
}

function width(list) {
  let sum = 0;
  for (const piece of list) for (const character of piece.text ?? piece.byte) sum += columns(character);
  return sum;
}

function cutMiddle(list, max) {
  const units = list.flatMap((piece) => (piece.text === undefined ? [piece] : [...piece.text].map((text) => ({ text }))));
  const take = (from, room) => {
    const taken = [];
    for (const unit of from) {
      room -= width([unit]);
      if (room < 0) break;
      taken.push(unit);
    }
    return taken;
  };
  const head = take(units, Math.ceil((max - 1) / 2));
  const tail = take([...units].reverse(), Math.floor((max - 1) / 2)).reverse();
  return [...head, { text: "…" }, ...tail].reduce((joined, unit) => {
    const last = joined[joined.length - 1];
    if (last && last.text !== undefined && unit.text !== undefined) last.text += unit.text;
    else joined.push({ ...unit });
    return joined;
  }, []);
}

export function plainCut(named, max) {
  const list = namePieces(named);
  return (width(list) > max ? cutMiddle(list, max) : list).map((piece) => piece.text ?? piece.byte).join("");
}

// A name as one word of a shell, so that pasting it does what it says whatever the name is.
export function shellWord(named) {
  const name = named.name_hex ? null : named.name ?? "";
  if (name !== null && /^[A-Za-z0-9_.\/:@%+=,-]+$/.test(name) && !name.startsWith("-")) return name;
  const bytes = name === null ? named.name_hex.match(/../g).map((hex) => parseInt(hex, 16)) : [...new TextEncoder().encode(name)];
  const plain = bytes.map((byte) => (byte >= 0x20 && byte < 0x7f && byte !== 0x27 && byte !== 0x5c ? String.fromCharCode(byte) : `\\x${byte.toString(16).padStart(2, "0")}`)).join("");
  return plain.includes("\\x") ? `$'${plain}'` : `'${plain}'`;
}

// A store that nobody has named has its address as a name: of a directory the last part is enough where the address is shown as well,
// of servers all that follows the scheme.
export function storeName(store) {
  const name = plainName({ name: store.name ?? "" });
  const address = /^[a-z+]+:(\/\/)?(.+)$/.exec(name);
  if (!address) return name;
  return (!address[1] && address[2].split("?")[0].split("/").filter(Boolean).pop()) || address[2];
}

// ---- holders

// The library's own label is "user@host:pid program": the program is what a person looks for, the rest is where it runs.
export function who(client) {
  const label = client?.label ?? "";
  const own = /^([^\s@]+@)?([^\s@]+:\d+) (.+)$/s.exec(label);
  if (own) return { what: own[3], where: own[2] };
  return { what: label, where: client?.pid ? `${label ? "" : "pid "}${client.pid}` : "" };
}

export function whoText(client) {
  const { what, where } = who(client);
  return plainName({ name: what || where || "?" });
}

export function whoNodes(client) {
  const { what, where } = who(client);
  const nodes = [];
  if (what) nodes.push(el("span.what", nameNodes({ name: what })));
  if (where) nodes.push(el("span.where", nameNodes({ name: where })));
  return nodes;
}

// The whole token is there to copy; the eye needs its last six digits.
export function tokenNodes(token) {
  const text = String(token ?? "");
  if (!text || text === "0") return [document.createTextNode("–")];
  return text.length > 6 ? [el("span.dim", text.slice(0, -6)), text.slice(-6)] : [text];
}
