/* SPDX-License-Identifier: MIT */
/*
 * Colours, fonts and patterns. Every text has a contrast of at least 4.5 on its ground, in both grounds. Patterns are made of the same
 * classes; so they change with the ground.
 */
#include "ink.h"

static const struct {
    const char *name, *light, *dark;
} colours[COLOURS] = {
    [NONE] = { "none", "none", "none" },
    [INK] = { "ink", "#14171c", "#e9edf2" },
    [MUTED] = { "muted", "#566170", "#a0acba" },
    [PANEL] = { "panel", "#ffffff", "#182028" },
    [GROUND] = { "ground", "#f4f6f8", "#0f151b" },
    [BORDER] = { "border", "#d9dfe6", "#33404c" },
    [GRID] = { "grid", "#e7ebf0", "#26313b" },
    [CLIENT_A] = { "a", "#1268c8", "#86c0fb" },
    [CLIENT_B] = { "b", "#b4530a", "#f59e5b" },
    [CLIENT_C] = { "c", "#6a1186", "#ce6bef" },
    [CLIENT_D] = { "d", "#0b6b62", "#5fd0c2" },
    [RED] = { "red", "#a90f1c", "#fa6a63" },
    [GREEN] = { "green", "#146c43", "#5cc98c" },
    [AMBER] = { "amber", "#855000", "#ffcc4d" },
    [ON] = { "on", "#ffffff", "#0f151b" },
    [RED_TINT] = { "redtint", "#fde8e8", "#3b1d20" },
    [GREEN_TINT] = { "greentint", "#e2f3ea", "#163226" },
    [GREY_TINT] = { "greytint", "#eceff3", "#2a343f" },
    [BAD_GROUND] = { "badground", "#f6ead2", "#3a3119" },
    [OK_GROUND] = { "okground", "#f1efe9", "#272b2b" },
    [CODE_GROUND] = { "codeground", "#f8f9fb", "#121920" },
    [BLUE_TINT] = { "bluetint", "#dcebfa", "#1b3147" },
};

const char *ink_name(enum colour colour)
{
    return colours[colour].name;
}

#define SANS                                                                                \
    "Inter,-apple-system,BlinkMacSystemFont,'Segoe UI',Roboto,'Helvetica Neue',Arial,"      \
    "'PingFang SC','Hiragino Sans GB','Microsoft YaHei','Noto Sans CJK SC','Noto Sans SC'," \
    "'Source Han Sans SC','WenQuanYi Micro Hei',sans-serif"
#define FIXED                                                                         \
    "'JetBrains Mono',ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono'," \
    "'WenQuanYi Micro Hei Mono',monospace"

static void fonts(FILE *out)
{
    fputs("svg text{font-family:" SANS ";font-weight:400;font-variant-numeric:tabular-nums}"
          "svg .w6{font-weight:600}svg .w7,svg:lang(zh) .w6{font-weight:700}svg "
          ".mono{font-family:" FIXED "}",
          out);
}

static void classes(FILE *out, bool dark)
{
    for (int i = 1; i < COLOURS; i++) {
        const char *value = dark ? colours[i].dark : colours[i].light;
        fprintf(out, ".f-%s{fill:%s}.s-%s{stroke:%s}", colours[i].name, value, colours[i].name,
                value);
    }
    fprintf(out, ".halo{paint-order:stroke;stroke:%s;stroke-width:4px;stroke-linejoin:round}",
            dark ? colours[PANEL].dark : colours[PANEL].light);
}

void ink_style_svg(FILE *out)
{
    fputs("<style>", out);
    fonts(out);
    classes(out, false);
    fputs(".veil,.now{display:none}\n@media (prefers-color-scheme:dark){", out);
    classes(out, true);
    fputs("}</style>\n", out);
}

static void variables(FILE *out, bool dark)
{
    for (int i = 1; i < COLOURS; i++)
        fprintf(out, "--%s:%s;", colours[i].name, dark ? colours[i].dark : colours[i].light);
    fprintf(out, "color-scheme:%s", dark ? "dark" : "light");
}

void ink_style_html(FILE *out)
{
    fputs(":root{", out);
    variables(out, false);
    fputs("}\n@media (prefers-color-scheme:dark){:root:not([data-theme=light]){", out);
    variables(out, true);
    fputs("}}\n:root[data-theme=dark]{", out);
    variables(out, true);
    fputs("}\n", out);
    fonts(out);
    for (int i = 1; i < COLOURS; i++)
        fprintf(out, ".f-%s{fill:var(--%s)}.s-%s{stroke:var(--%s)}", colours[i].name,
                colours[i].name, colours[i].name, colours[i].name);
    fputs(".halo{paint-order:stroke;stroke:var(--panel);stroke-width:4px;stroke-linejoin:round}\n"
          ":root{--sans:" SANS ";--fixed:" FIXED "}\n",
          out);
}

#define PATTERN(name, w, h) \
    "<pattern id=\"p-" name "\" width=\"" w "\" height=\"" h "\" patternUnits=\"userSpaceOnUse\""

void ink_patterns(FILE *out)
{
    fputs(
        "<defs>\n" PATTERN(
            "waves", "16",
            "8") "><rect width=\"16\" height=\"8\" class=\"f-panel\"/>"
                 "<path d=\"M0 4C4 0 4 0 8 4S12 8 16 4\" fill=\"none\" class=\"s-muted\" "
                 "stroke-width=\"1\" opacity=\".75\"/></pattern>\n" //
        PATTERN("hatch", "8", "8") " patternTransform=\"rotate(45)\">"
                                   "<rect width=\"8\" height=\"8\" class=\"f-panel\"/>"
                                   "<rect width=\"3.5\" height=\"8\" class=\"f-b\"/></pattern>\n" //
        PATTERN("dots", "7",
                "7") "><rect width=\"7\" height=\"7\" class=\"f-panel\"/>"
                     "<circle cx=\"3.5\" cy=\"3.5\" r=\"2.1\" class=\"f-c\"/></pattern>\n" //
        PATTERN("cross", "8",
                "8") " patternTransform=\"rotate(45)\">"
                     "<rect width=\"8\" height=\"8\" class=\"f-panel\"/>"
                     "<path d=\"M0 4H8M4 0V8\" class=\"s-d\" stroke-width=\"1.8\"/></pattern>\n" //
        PATTERN("barrier", "8",
                "8") " patternTransform=\"rotate(40)\">"
                     "<rect width=\"8\" height=\"8\" class=\"f-ink\"/>"
                     "<rect width=\"2.6\" height=\"8\" class=\"f-panel\"/></pattern>\n" //
        PATTERN("dead", "14", "14") "><rect width=\"14\" height=\"14\" class=\"f-greytint\"/>"
                                    "<path d=\"M4 4L10 10M10 4L4 10\" class=\"s-muted\" "
                                    "stroke-width=\"1\"/></pattern>\n"
                                    "</defs>\n",
        out);
}
