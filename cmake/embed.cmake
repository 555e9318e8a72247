# SPDX-License-Identifier: MIT
#
# Text files (Lua, SQL) as C. What every shape of it needs; include() this. The shapes differ because their readers do: a script of
# Redis is a struct with its SHA-1 (src/engine/redis/scripts/embed.cmake), a schema is a list of statements
# (src/engine/postgres/sql/embed.cmake, src/engine/mariadb/embed.cmake), a script of the bench is a string.

# embed_strip(VARIABLE): without comment lines, comments behind code (" -- "), indentation and empty lines. So a file must not have a
# literal that goes over several lines, or has "--" in it.
macro(embed_strip variable)
  string(PREPEND ${variable} "\n")
  string(REGEX REPLACE "\n[ \t]*--[^\n]*" "" ${variable} "${${variable}}") # whole lines
  string(REGEX REPLACE " +-- [^\n]*" "" ${variable} "${${variable}}")      # behind code
  string(REGEX REPLACE "\n[ \t\n]+" "\n" ${variable} "${${variable}}")
  string(REGEX REPLACE "^\n" "" ${variable} "${${variable}}")
endmacro()

# embed_quote(VARIABLE): escaped for the inside of a C string, line by line.
macro(embed_quote variable)
  string(REPLACE "\\" "\\\\" ${variable} "${${variable}}")
  string(REPLACE "\"" "\\\"" ${variable} "${${variable}}")
  string(REPLACE "\n" "\\n\"\n    \"" ${variable} "${${variable}}")
endmacro()

set(EMBED_HEAD "/* Made by embed.cmake: do not edit. */\n")
set(EMBED_PRAGMA "#pragma GCC diagnostic ignored \"-Woverlength-strings\"\n")
