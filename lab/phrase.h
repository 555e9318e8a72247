/* SPDX-License-Identifier: MIT */
/* A text in the languages of the lab. Every phrase is written twice by hand, in the terms of its readers: the Chinese one in those of
 * the seeds. */
#ifndef LAB_PHRASE_H
#define LAB_PHRASE_H

enum lang { LANG_EN, LANG_ZH, LANGS };

struct phrase {
    const char *in[LANGS]; /* by language; NULL: none */
};
#define PHRASE(en, zh) \
    {                  \
        {              \
            en, zh     \
        }              \
    }

static inline const char *phrase(const struct phrase *phrase, enum lang lang)
{
    return phrase->in[lang] ? phrase->in[lang] : "";
}

#endif
