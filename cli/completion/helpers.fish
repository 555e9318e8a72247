# fish completion of holdfast(1), made by `holdfast completion fish`
#
# A name is any bytes, chosen by anybody who may use the store: fish quotes what it inserts, and nothing
# evaluates it. A NUL is behind each, for string split0.

# Names that begin with a dash only with `any`: elsewhere they would be options. Behind a tab fish expects a
# description, so names with a tab cannot be offered.
function __holdfast_names
    for name in (holdfast ls -0 2>/dev/null | string split0)
        string match -q -- "*"\t"*" $name; and continue
        test "$argv[1]" != any; and string match -q -- '-*' $name; and continue
        printf '%s\0' $name
    end
end

# Tokens are digits; a label, which may be any text, has a backslash before each of its quotes.
function __holdfast_tokens
    set -l words (commandline -opc)
    for word in $words[3..-1]
        string match -q -- '-*' $word; and continue
        holdfast show --json --name=$word 2>/dev/null | string match -rg '"token": *"?([0-9]+)'
        break
    end
end

