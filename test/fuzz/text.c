/* SPDX-License-Identifier: MIT */
/* Small text work: durations, numbers, globs, names for people, hex; the tag behind a label. */
#include "fuzz.h"

#include "deadlock/session.h"
#include "util/text.h"

static void durations(const char *text)
{
    int64_t ms = -1, again = -1;
    uint64_t number = 0;
    char shown[64];

    if (!hfi_parse_duration(text, &ms)) {
        MUST(ms >= 0 && ms <= HF_DURATION_MAX_MS);
        hfi_format_duration(ms, shown, sizeof shown);
        MUST(strlen(shown) < sizeof shown - 1);
        if (!hfi_parse_duration(shown, &again)) /* "1m30s" is only for people */
            MUST(again <= ms);
    }
    if (!hfi_parse_u64(text, 3, 1000, &number))
        MUST(number >= 3 && number <= 1000);
    (void)hfi_parse_u64(text, 0, UINT64_MAX, &number);
}

static void globs(struct fuzz_input in)
{
    struct fuzz_input pattern = fuzz_piece(&in, 40);
    unsigned char *exact_pattern = fuzz_exact(pattern.at, pattern.len);
    unsigned char *exact_text = fuzz_exact(in.at, in.len);
    bool matches = hfi_glob_match(exact_pattern, pattern.len, exact_text, in.len);

    if (pattern.len == 1 && *exact_pattern == '*')
        MUST(matches);
    free(exact_pattern);
    free(exact_text);
}

/* What is shown has no byte that a terminal acts on, and always its end. */
static void names(const uint8_t *data, size_t len)
{
    char shown[HFI_QUOTED_MAX], small[12];
    char *exact = fuzz_exact(data, len);

    hfi_quote_name(exact, len, shown, sizeof shown);
    MUST(memchr(shown, 0, sizeof shown));
    for (const char *c = shown; *c; c++)
        MUST((unsigned char)*c >= 0x20 && *c != 0x7f);
    hfi_quote_name(exact, len, small, sizeof small);
    MUST(memchr(small, 0, sizeof small));
    free(exact);
}

static void hex(const uint8_t *data, size_t len)
{
    unsigned char bytes[64];
    char text[2 * sizeof bytes + 1];
    char *exact = fuzz_exact(data, len);

    if (len <= 2 * sizeof bytes && hfi_unhex(exact, len, bytes, len / 2)) {
        hfi_hex(bytes, len / 2, text);
        for (size_t i = 0; i < len; i++)
            MUST((text[i] | 0x20) == (exact[i] | 0x20));
    }
    free(exact);
}

static void tags(const uint8_t *data, size_t len)
{
    struct hfi_tag tag, again;
    char written[HFI_TAG_MAX + 1];
    char *label = fuzz_text(data, len);

    if (hfi_tag_maybe(label) && hfi_tag_cut(label, &tag)) {
        MUST(tag.count <= HFI_HOLDS_MAX);
        written[hfi_tag_write(&tag, written)] = 0;
        MUST(hfi_tag_cut(written, &again));
        MUST(again.session == tag.session && again.count == tag.count && written[0] == 0);
    }
    free(label);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct fuzz_input in = { data, len };
    uint8_t which = fuzz_byte(&in) % 5;
    char *text;

    switch (which) {
    case 0:
        text = fuzz_text(in.at, in.len);
        durations(text);
        free(text);
        break;
    case 1:
        globs(in);
        break;
    case 2:
        names(in.at, in.len);
        break;
    case 3:
        hex(in.at, in.len);
        break;
    default:
        tags(in.at, in.len);
        break;
    }
    return 0;
}
