/* SPDX-License-Identifier: MIT */
/*
 * The search, and buttons that copy code. Without this script the site is complete but for those.
 *
 * The search looks through all text: about a megabyte, which takes milliseconds. So Chinese needs no dictionary: a run of
 * Chinese characters is looked for as it is and, if it is nowhere, by its pairs of characters.
 */
"use strict";
(() => {
  const root = document.documentElement.dataset.root, own = document.documentElement.lang, words = window.words;
  const make = (name, more = {}, ...children) => {
    const node = Object.assign(document.createElement(name), more);
    node.append(...children);
    return node;
  };

  /* ---- copy ---- */
  for (const block of document.querySelectorAll(".code")) {
    const button = make("button", { type: "button", className: "copy", textContent: words.copy });
    button.addEventListener("click", async () => {
      let text = block.querySelector("code").textContent;
      if (block.dataset.language === "console") // commands, without prompts and output
        text = text.split("\n").filter((line) => /^[$#] /.test(line)).map((line) => line.slice(2)).join("\n") || text;
      try {
        await navigator.clipboard.writeText(text);
      } catch { // a page of a disk may not: by the selection
        const area = make("textarea", { value: text });
        document.body.append(area);
        area.select();
        document.execCommand("copy");
        area.remove();
      }
      button.textContent = words.copied;
      setTimeout(() => { button.textContent = words.copy; }, 1500);
    });
    block.append(button);
  }

  /* ---- pages, on a phone: the navigation moves into what opens ---- */
  const pages = document.querySelector("details.pages"), side = document.querySelector("nav.side");
  const narrow = matchMedia("(max-width: 899px)");
  const place = () => (narrow.matches ? pages.append(side) : pages.after(side));
  narrow.addEventListener("change", place);
  place();
  const current = side.querySelector("[aria-current]");
  if (current && !narrow.matches && current.offsetTop > side.clientHeight - 40)
    side.scrollTop = current.offsetTop - side.clientHeight / 2;

  /* ---- search ---- */
  const box = document.getElementById("search");
  const input = make("input", { type: "search", placeholder: words.search, autocomplete: "off", spellcheck: false });
  const list = make("ol", { id: "results", hidden: true });
  const hint = make("kbd", { textContent: "/", title: `/ ${words.keys}` });
  for (const [name, value] of Object.entries({ role: "combobox", "aria-label": words.search, "aria-controls": "results", "aria-expanded": "false", "aria-autocomplete": "list" }))
    input.setAttribute(name, value);
  list.setAttribute("role", "listbox");
  box.append(input, hint, list);

  let loading = null, at = -1;
  const load = () => loading ??= Promise.all(["en", "zh-CN"].map((language) => new Promise((done) => {
    const script = make("script", { src: `${root}/search-${language}.js` });
    script.onload = script.onerror = done;
    document.head.append(script);
  }))).then(() => {
    for (const language of Object.keys(window.found ?? {}))
      window.found[language] = window.found[language].map(([page, name, title, heading, text, weight]) =>
        ({ page, name, title, heading, text, weight, language, first: heading === title, page_lower: title.toLowerCase(), head: heading.toLowerCase(), lower: text.toLowerCase() }));
  });

  const han = /[\u3400-\u9fff]/;
  /* The words of a query: each a list of forms, the first of which counts fully. */
  const terms = (query) => (query.toLowerCase().match(/[\u3400-\u9fff]+|[^\s\u3400-\u9fff，。、；：？！（）]+/g) ?? []);
  const pairs = (term) => Array.from({ length: term.length - 1 }, (_, i) => term.slice(i, i + 2));
  /* "restarts" also finds "restart". */
  const stem = (term) => (/^[a-z]{4,}s$/.test(term) && !term.endsWith("ss") ? term.replace(/(?<=sh|ch|x)es$|s$/, "") : null);
  const boundary = (text, i) => i === 0 || !/[a-z0-9_]/.test(text[i - 1]);

  /* How well a text has a term: 0: not at all; 2: at the beginning of a word. */
  const has = (text, term) => {
    const i = text.indexOf(term);
    if (i < 0)
      return 0;
    if (han.test(term) || boundary(text, i))
      return 2;
    for (let next = i; next >= 0; next = text.indexOf(term, next + 1))
      if (boundary(text, next))
        return 2;
    return 1;
  };

  /* Somebody who asks a question wants a guide; somebody who types a name finds its page, whatever it is. */
  const worth = { guide: 1, engine: 0.95, manual: 0.5, call: 0.45, developer: 0.35 };

  /* A heading counts most, and a page's title for its beginning; a short section with the term is more about it than a long one. */
  const judge = (entry, term) => (entry.first ? 10 : 6) * has(entry.head, term) + has(entry.page_lower, term) +
    has(entry.lower, term) * (1 + Math.min(2, 400 / (entry.lower.length + 200)));
  const score = (entry, asked) => {
    let sum = 0;
    for (const { term, parts, stem } of asked) {
      let value = Math.max(judge(entry, term), stem ? 0.9 * judge(entry, stem) : 0);
      if (!value && parts) {
        const values = parts.map((part) => judge(entry, part));
        if (values.filter(Boolean).length * 2 > values.length)
          value = values.reduce((a, b) => a + b) / values.length / 2;
      }
      if (!value)
        return 0;
      sum += value;
    }
    const whole = asked.map(({ term }) => term).join(" ");
    if (entry.first && entry.head.replace(/\(\d\)$/, "") === whole)
      sum *= 3;
    const phrase = asked.length > 1 && entry.lower.includes(whole) ? 1.5 : 1;
    return sum * phrase * worth[entry.weight];
  };

  const search = (query) => {
    const asked = terms(query).map((term) => ({ term, parts: han.test(term) && term.length > 2 ? pairs(term) : null, stem: stem(term) }));
    if (!asked.length)
      return { asked, hits: [] };
    const among = (entries) => entries.map((entry) => [score(entry, asked), entry]).filter(([value]) => value);
    const found = window.found ?? {};
    let hits = among(found[han.test(query) ? "zh-CN" : own] ?? []);
    if (!hits.length) // better another language than nothing
      hits = among(Object.values(found).flat());
    const of_page = {}; // two sections of a page at most
    return { asked, hits: hits.sort((a, b) => b[0] - a[0]).map(([, entry]) => entry)
      .filter(({ page }) => (of_page[page] = (of_page[page] ?? 0) + 1) <= 2).slice(0, 30) };
  };

  /* Where a term stands, with some words around it, marked. */
  const snippet = (entry, asked) => {
    const forms = asked.flatMap(({ term, parts }) => (entry.lower.includes(term) || !parts ? [term] : parts)).filter((form) => entry.lower.includes(form));
    const first = forms.length ? entry.lower.indexOf(forms[0]) : 0;
    const begin = Math.max(0, first - 50), text = entry.text.slice(begin, begin + 180), lower = text.toLowerCase();
    const node = make("span", { className: "words" });
    let done = 0;
    while (done < text.length) {
      const next = forms.map((form) => [lower.indexOf(form, done), form]).filter(([i]) => i >= 0).sort((a, b) => a[0] - b[0])[0];
      if (!next)
        break;
      node.append(text.slice(done, next[0]), make("mark", { textContent: text.slice(next[0], next[0] + next[1].length) }));
      done = next[0] + next[1].length;
    }
    node.append(text.slice(done));
    if (begin > 0)
      node.prepend("… ");
    return node;
  };

  const choose = (index) => {
    const items = [...list.querySelectorAll("a")];
    at = items.length ? (index + items.length) % items.length : -1;
    items.forEach((item, i) => item.setAttribute("aria-selected", String(i === at)));
    if (at >= 0) {
      items[at].scrollIntoView({ block: "nearest" });
      input.setAttribute("aria-activedescendant", items[at].id);
    } else {
      input.removeAttribute("aria-activedescendant");
    }
  };

  const show = (open) => {
    list.hidden = !open;
    input.setAttribute("aria-expanded", String(open));
  };

  const update = async () => {
    const query = input.value;
    await load();
    if (query !== input.value)
      return;
    const { asked, hits } = search(query);
    list.replaceChildren(...hits.map((entry, i) => {
      const link = make("a", { id: `result-${i}`, href: `${root}/${entry.page}${entry.name ? `#${entry.name}` : ""}`, lang: entry.language },
        make("b", { textContent: entry.heading === entry.title ? entry.title : `${entry.title} › ${entry.heading}` }), snippet(entry, asked));
      link.setAttribute("role", "option");
      link.addEventListener("click", () => show(false));
      return make("li", { role: "presentation" }, link);
    }));
    if (!hits.length && asked.length)
      list.append(make("li", { className: "none", textContent: `${words.none} “${query.trim()}”` }));
    show(asked.length > 0);
    choose(0);
    list.dataset.query = query;
  };

  input.addEventListener("focus", () => { load(); if (input.value) update(); });
  input.addEventListener("input", update);
  input.addEventListener("keydown", (event) => {
    if (event.isComposing) // an input method has the key
      return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      choose(at + (event.key === "ArrowDown" ? 1 : -1));
      event.preventDefault();
    } else if (event.key === "Enter" && at >= 0) {
      list.querySelectorAll("a")[at].click();
    } else if (event.key === "Escape") {
      show(false);
      input.blur();
    }
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !event.ctrlKey && !event.metaKey && !event.altKey && !/^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName)) {
      input.focus();
      input.select();
      event.preventDefault();
    }
  });
  document.addEventListener("click", (event) => { if (!box.contains(event.target)) show(false); });
})();
