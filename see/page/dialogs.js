// SPDX-License-Identifier: MIT
// Breaking a lease, and the access token. Breaking asks for the name to be typed and says what follows; an answer that does not come leaves
// the outcome unknown, and says so. The token lives in a variable of this page and nowhere else.

import { age, el, nameNodes, plainName, whoText } from "./format.js";
import { keyPath } from "./stream.js";
import { t } from "./text.js";

export class Dialogs {
  // nodes: {break, token, toast}; stream: for the token
  constructor(nodes, stream) {
    Object.assign(this, { nodes, stream });
  }

  build(dialog, title, ...body) {
    const close = el("button.plain", t("cancel"));
    close.type = "button";
    close.addEventListener("click", () => dialog.close());
    const form = el("form", el("h2", title), ...body);
    form.addEventListener("submit", (event) => event.preventDefault());
    dialog.replaceChildren(form);
    dialog.setAttribute("aria-label", title);
    if (!dialog.open) dialog.showModal();
    return { form, close };
  }

  askBreak(store, row, holder, detail, now) {
    const name = plainName(row);
    const next = detail.waiters[0];
    const input = el("input.wide");
    Object.assign(input, { autocomplete: "off", spellcheck: false, id: "break-name" });
    input.setAttribute("aria-label", t("break_type"));
    const send = el("button.danger", t("break_do"));
    Object.assign(send, { type: "submit", disabled: true });
    const says = el("p.fault");
    says.setAttribute("role", "status");
    const { form, close } = this.build(this.nodes.break, t("break_title"),
      el("p", t("break_hit", whoText(holder), age(now - holder.since)), " ", next ? t("break_next", whoText(next)) : t("break_free")),
      el("p", t("break_type"), " ", el("b.name", nameNodes(row))), input, says);
    form.append(el("div.buttons", close, send));
    input.addEventListener("input", () => { send.disabled = input.value !== name; });
    form.addEventListener("submit", async () => {
      if (input.value !== name || send.disabled) return;
      send.disabled = true;
      const failed = await this.sendBreak(store, row, holder);
      if (failed === null) {
        this.nodes.break.close();
        this.toast(t("break_done", name));
      } else {
        says.textContent = failed;
        send.disabled = false;
      }
    });
    input.focus();
  }

  // null: broken. Else what to tell.
  async sendBreak(store, row, holder) {
    let answer;
    try {
      answer = await fetch(`/api/v1/stores/${encodeURIComponent(store.id)}/names/${keyPath(row.key)}/break`, {
        method: "POST", headers: { ...this.stream.headers(), "Content-Type": "application/json" }, credentials: "omit",
        body: JSON.stringify({ token: holder.token, ...(row.name_hex ? { name_hex: row.name_hex } : { name: row.name }) }),
      });
    } catch (error) {
      return t("break_unknown");
    }
    if (answer.ok) return null;
    if (answer.status === 504) return t("break_unknown"); // the store did not answer the server
    const told = await answer.json().catch(() => null);
    return t("break_failed", typeof told?.text === "string" ? plainName({ name: told.text }) : t("http", answer.status));
  }

  askToken(refused) {
    const input = el("input.wide");
    Object.assign(input, { type: "password", autocomplete: "off", id: "token-input" });
    input.setAttribute("aria-label", t("token_label"));
    const send = el("button", t("token_use"));
    send.type = "submit";
    const { form, close } = this.build(this.nodes.token, t("token_title"), el("p", t("token_why")), refused ? el("p.fault", t("token_refused")) : "", el("p", t("token_label")), input);
    form.append(el("div.buttons", close, send));
    form.addEventListener("submit", () => {
      const token = input.value.trim();
      this.nodes.token.close();
      form.replaceChildren();
      if (token) this.stream.setToken(token);
    });
    input.focus();
  }

  toast(text) {
    this.nodes.toast.textContent = text;
    this.nodes.toast.hidden = false;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => { this.nodes.toast.hidden = true; }, 6000);
  }
}
