#!/bin/sh
# SPDX-License-Identifier: MIT
# workers.sh PROGRAM URL: does the example tell its story, and in this order? Tokens are numbers that grow.
said=$("$1" "$2") || exit 1
first=$(printf '%s\n' "$said" | sed -n 's/^first: .*, token //p')
second=$(printf '%s\n' "$said" | sed -n 's/^second: .*, token //p')
wanted="first: holds report, token $first
first: wrote page
first: lost report
second: holds report, token $second
second: wrote page
first: refused, a newer token was used
second: released
page: by second"
[ "$said" = "$wanted" ] && [ "$second" -gt "$first" ] && exit 0
echo "$said"
exit 1
