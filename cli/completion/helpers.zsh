#compdef holdfast
# zsh completion of holdfast(1), made by `holdfast completion zsh`
#
# A name is any bytes, chosen by anybody who may use the store: compadd quotes it, and nothing evaluates it.

_holdfast_any_name() {
  local -a names=("${(@0)$(holdfast ls -0 2>/dev/null)}")
  names=("${(@)names:#}")
  compadd "$@" -a names
}

# Not those that begin with a dash: they would be options.
_holdfast_names() {
  local -a names=("${(@0)$(holdfast ls -0 2>/dev/null)}")
  names=("${(@)names:#(-*|)}")
  compadd "$@" -a names
}

# Tokens are digits; a label, which may be any text, has a backslash before each of its quotes.
_holdfast_tokens() {
  local one wanted=
  local -a tokens
  for one in "${(@Q)words[2,-1]}"; do
    [[ $one == (-*|) ]] || { wanted=$one; break }
  done
  [[ -n $wanted ]] || return 1
  tokens=(${(f)"$(holdfast show --json --name="$wanted" 2>/dev/null |
    grep -oE '"token": *"?[0-9]+' | grep -oE '[0-9]+$')"})
  compadd "$@" -a tokens
}

_holdfast_stores() {
  local -a names=("${(@0)$(holdfast completion profiles 2>/dev/null)}")
  names=("${(@)names:#}")
  compadd "$@" -a names
  compadd "$@" -S '' -- ${=_holdfast_schemes}
}

