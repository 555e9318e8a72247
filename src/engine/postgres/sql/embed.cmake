# SPDX-License-Identifier: MIT
#
# cmake -DDIR=<here> -DOUT=<file> -P embed.cmake: the *.sql beside this, in the order of their names, as
# C: `const char *const postgres_schema_text[]`, NULL at the end. Comment lines and indentation are left out.
cmake_minimum_required(VERSION 3.20)
include(${CMAKE_CURRENT_LIST_DIR}/../../../../cmake/embed.cmake)
file(GLOB files ${DIR}/*.sql)
list(SORT files)
set(code "${EMBED_HEAD}#include \"engine/postgres/schema_text.h\"\n\n${EMBED_PRAGMA}")
string(APPEND code "const char *const postgres_schema_text[] = {\n")
foreach(file ${files})
  file(READ ${file} text)
  embed_strip(text)
  embed_quote(text)
  string(APPEND code "    \"${text}\",\n")
endforeach()
string(APPEND code "    0\n};\n")
file(WRITE ${OUT} "${code}")
