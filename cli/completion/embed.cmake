# SPDX-License-Identifier: MIT
#
# cmake -DDIR=<here> -DOUT=<file> -P embed.cmake: what each shell's script begins with as C, `const char
# completion_<shell>[]`.

cmake_minimum_required(VERSION 3.20)
set(code "/* Made by embed.cmake: do not edit. */\n#include \"completion.h\"\n\n")
string(APPEND code "#pragma GCC diagnostic ignored \"-Woverlength-strings\"\n")
foreach(shell bash zsh fish)
  file(READ ${DIR}/helpers.${shell} text)
  string(REPLACE "\\" "\\\\" text "${text}")
  string(REPLACE "\"" "\\\"" text "${text}")
  string(REPLACE "\n" "\\n\"\n    \"" text "${text}")
  string(APPEND code "\nconst char completion_${shell}[] =\n    \"${text}\";\n")
endforeach()
file(WRITE ${OUT} "${code}")
