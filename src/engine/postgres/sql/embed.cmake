# SPDX-License-Identifier: MIT
#
# cmake -DDIR=<here> -DOUT=<file> -P embed.cmake: the *.sql beside this, in the order of their names, as
# C: `const char *const postgres_schema_text[]`, NULL at the end. Comment lines and indentation are left out.
cmake_minimum_required(VERSION 3.20)
file(GLOB files ${DIR}/*.sql)
list(SORT files)
set(code "/* Made by embed.cmake: do not edit. */\n#include \"engine/postgres/schema_text.h\"\n\n")
string(APPEND code "#pragma GCC diagnostic ignored \"-Woverlength-strings\"\n")
string(APPEND code "const char *const postgres_schema_text[] = {\n")
foreach(file ${files})
  file(READ ${file} text)
  string(PREPEND text "\n")
  string(REGEX REPLACE "\n[ \t]*--[^\n]*" "" text "${text}") # whole lines
  string(REGEX REPLACE " +-- [^\n]*" "" text "${text}")      # behind code
  string(REGEX REPLACE "\n[ \t\n]+" "\n" text "${text}")
  string(REGEX REPLACE "^\n" "" text "${text}")
  string(REPLACE "\\" "\\\\" text "${text}")
  string(REPLACE "\"" "\\\"" text "${text}")
  string(REPLACE "\n" "\\n\"\n    \"" text "${text}")
  string(APPEND code "    \"${text}\",\n")
endforeach()
string(APPEND code "    0\n};\n")
file(WRITE ${OUT} "${code}")
