# SPDX-License-Identifier: MIT
"""The picture of bench-peers: for each server a block of bars for pairs and one for a contended name, as shares of the
client by hand. Ours stand out by colour and weight; works in light and dark mode."""
import html

NAME_W, BAR_W, NUMBER_W, ROW_H, GAP, TOP = 212, 150, 176, 22, 58, 92
COLUMN_W = NAME_W + BAR_W + NUMBER_W
WIDTH = 2 * COLUMN_W + 72
LIMIT = 1.25  # where a bar is cut

STYLE = """<style>
text { font-family: system-ui, 'DejaVu Sans', sans-serif; font-size: 12.5px; fill: #1f2328; }
.paper { fill: #ffffff; } .title { font-size: 19px; font-weight: 600; } .head { font-weight: 600; font-size: 13.5px; }
.dim { font-size: 11px; fill: #59636e; } .name { text-anchor: end; } .ours { font-weight: 700; }
.limit { stroke: #59636e; stroke-width: 1; stroke-dasharray: 3 3; }
.bar { fill: #b7bfc8; } .barours { fill: #0969da; } .barhand { fill: #dfe3e8; }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3; } .paper { fill: #0d1117; } .dim { fill: #9198a1; } .limit { stroke: #9198a1; }
.bar { fill: #4b545f; } .barours { fill: #4493f8; } .barhand { fill: #2b323b; }
}
</style>"""


def text(x, y, kind, words):
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}">{html.escape(words)}</text>'


def kind_of(name):
    if name.startswith("Holdfast"):
        return "ours"
    return "hand" if "by hand" in name or "one of five" in name else ""


def bars(x, y, rows, base, number):
    """One block; `number` says what stands behind a bar."""
    out = []
    one = x + NAME_W + BAR_W / LIMIT
    rows = sorted(rows.items(), key=lambda item: -item[1]["ratio"])
    for name, own in rows:
        kind = kind_of(name) if name != base or kind_of(name) == "ours" else "hand"
        width = max(BAR_W * min(own["ratio"], LIMIT) / LIMIT, 1)
        out.append(text(x + NAME_W - 8, y + 15, f"name {kind}", name))
        out.append(f'<rect x="{x + NAME_W}" y="{y + 4}" width="{width:.1f}" height="14" rx="2" class="bar{kind}"/>')
        out.append(text(x + NAME_W + BAR_W + 8, y + 15, f"dim {kind}", number(own)))
        y += ROW_H
    out.append(f'<line x1="{one:.1f}" y1="{y - len(rows) * ROW_H}" x2="{one:.1f}" y2="{y}" class="limit"/>')
    return out


def pair_number(own):
    return f"{own['ratio']:.2f}  ({own['rate']:,.0f}/s)"


def queue_number(own):
    starved = f", {own['starved']:.0f} starved" if own["starved"] >= 1 else ""
    return f"{own['ratio']:.2f}, p99 {own['p99_ms']:,.0f} ms{starved}"


def draw(results):
    y, out = TOP, []
    for result in results:
        right = 24 + COLUMN_W + 24
        out.append(text(24, y, "head", f"{result['group']}: acquire and release, one task"))
        out.append(text(right, y, "head", f"{result['group']}: 16 tasks on one name, held 1 ms: hand-overs"))
        out += bars(24, y + 8, result["pair"], result["base"], pair_number)
        out += bars(right, y + 8, result["queue"], result["queue_base"], queue_number)
        y += max(len(result["pair"]), len(result["queue"])) * ROW_H + 14
        for name, why in result["skipped"].items():
            out.append(text(24, y + 4, "dim", f"skipped: {name}: {why}"))
            y += 16
        y += GAP - 22
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" width="{WIDTH}" height="{y}" role="img" '
        'aria-label="Lock libraries beside a client by hand">',
        STYLE, f'<rect width="{WIDTH}" height="{y}" class="paper"/>',
        text(24, 36, "title", "Lock libraries, as shares of a client by hand"),
        text(24, 56, "dim", "One server, alternating rounds; medians of the ratios within rounds. Dashed: the client by hand (1.0). More is better."),
        *out, "</svg>", ""])
