# bash completion of holdfast(1), made by `holdfast completion bash`
#
# A name is any bytes, chosen by anybody who may use the store. Nothing below expands or evaluates one: names
# are compared, and quoted by printf %q.
# shellcheck shell=bash disable=SC2034,SC2154 # what is local to _holdfast() is set and read here

# typed: the words before the cursor as they were typed, quotes and all, for readline's own division breaks
# names at each ':', '=' and '@'. word: the last of them, which may be empty, or the value in --option=value.
# prev: the word before it. head: what of `word` readline leaves alone; it replaces what is behind the last break.
_holdfast_read() {
  local line=${COMP_LINE:0:COMP_POINT} cur=${COMP_WORDS[COMP_CWORD]} c quote='' i
  typed=() word=''
  for ((i = 0; i < ${#line}; i++)); do
    c=${line:i:1}
    if [[ $quote == "'" ]]; then
      [[ $c == "'" ]] && quote=
    elif [[ $c == \\ ]]; then
      word+=$c
      ((++i))
      c=${line:i:1}
    elif [[ $quote ]]; then
      [[ $c == '"' ]] && quote=
    elif [[ $c == [\'\"] ]]; then
      quote=$c
    elif [[ $c == [[:space:]] ]]; then
      [[ $word ]] && typed+=("$word")
      word=
      continue
    fi
    word+=$c
  done
  typed+=("$word")
  while ((${#typed[@]} > 1)) && [[ ${typed[0]} != "${COMP_WORDS[0]}" ]]; do
    typed=("${typed[@]:1}")
  done
  prev=
  ((${#typed[@]} > 1)) && prev=${typed[${#typed[@]} - 2]}
  [[ $word == --*=* ]] && prev=${word%%=*} word=${word#*=}
  [[ $cur == [=:@] ]] && cur=
  [[ $word == *"$cur" ]] || cur=${word##*[=:@]}
  head=${word%"$cur"}
}

# Words of our own, divided by spaces
_holdfast_words() {
  local one
  for one in $1; do
    [[ $one == "$word"* ]] && COMPREPLY+=("${one#"$head"}")
  done
}

# Names from standard input, a NUL behind each. Those that begin with a dash only with `any`: elsewhere they
# would be options.
_holdfast_names() {
  local name form
  while IFS= read -r -d '' name; do
    [[ $1 == any || $name != -* ]] || continue
    case $word in
    \'*)
      [[ $name == *[[:cntrl:]]* ]] && continue
      form=${name//\'/"'\\''"}
      [[ $form == "${word:1}"* ]] && COMPREPLY+=("$form")
      ;;
    \"*)
      [[ $name == *[[:cntrl:]!]* ]] && continue
      form=${name//\\/"\\\\"}
      form=${form//\"/'\"'}
      form=${form//\$/'\$'}
      form=${form//\`/'\`'}
      [[ $form == "${word:1}"* ]] && COMPREPLY+=("$form")
      ;;
    *)
      printf -v form %q "$name"
      if [[ $form == "$word"* ]]; then
        COMPREPLY+=("${form#"$head"}")
      elif [[ ! $head && $word != *[\\\'\"\$\`]* && $name == "$word"* ]]; then
        COMPREPLY+=("$form") # typed plainly, but it must be quoted
      fi
      ;;
    esac
  done
}

# The tokens of the name that was typed, which is looked for among the names. Tokens are digits; a label, which
# may be any text, has a backslash before each of its quotes.
_holdfast_tokens() {
  local name form i wanted=''
  for ((i = 1; i < ${#typed[@]} - 1; i++)); do
    case ${typed[i]} in
    -S | --store | --color | --token) ((++i)) ;;
    --name) wanted=${typed[++i]} ;;
    --name=*) wanted=${typed[i]#*=} ;;
    -* | "$verb") ;;
    *) wanted=${typed[i]} ;;
    esac
  done
  while IFS= read -r -d '' name; do
    printf -v form %q "$name"
    [[ $wanted == "$form" || $wanted == "$name" || $wanted == \'"$name"\' || $wanted == \""$name"\" ]] || continue
    _holdfast_words "$(holdfast show --json --name="$name" 2>/dev/null </dev/null |
      grep -oE '"token": *"?[0-9]+' | grep -oE '[0-9]+$')"
  done < <(holdfast ls -0 2>/dev/null)
}

_holdfast_stores() {
  _holdfast_words "$schemes"
  ((${#COMPREPLY[@]})) && compopt -o nospace 2>/dev/null
  _holdfast_names any < <(holdfast completion profiles 2>/dev/null)
}

