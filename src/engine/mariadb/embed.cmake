# SPDX-License-Identifier: MIT
#
# cmake -DDIR=<here>/sql -DOUT=<file> -P embed.cmake: the statements as C, `maria_schema_text`, in the order of
# their files. A file is one statement; those that begin with 0 have several. @NOW@ is the server's clock, @ROUTINES@ the
# version of the procedures (internal.h). A procedure that is there is replaced, in one step; MySQL cannot do that, and keeps it (zz_routines.sql).

cmake_minimum_required(VERSION 3.20)
include(${CMAKE_CURRENT_LIST_DIR}/../../../cmake/embed.cmake)
file(STRINGS ${DIR}/../internal.h routines REGEX "define MARIA_ROUTINES")
string(REGEX MATCH "[0-9]+" routines "${routines}")
set(create "CREATE /*M!100103 OR REPLACE */ PROCEDURE /*!80029 IF NOT EXISTS */")
file(GLOB files ${DIR}/*.sql)
list(SORT files)
set(code "${EMBED_HEAD}#include \"engine/mariadb/internal.h\"\n\n${EMBED_PRAGMA}\n")
string(APPEND code "const char *const maria_schema_text[] = {\n")
foreach(file ${files})
  get_filename_component(name ${file} NAME_WE)
  file(READ ${file} text)
  embed_strip(text)
  string(REGEX REPLACE "\n$" "" text "${text}")
  string(REPLACE "@NOW@" "CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS SIGNED)" text "${text}")
  string(REPLACE "@ROUTINES@" "${routines}" text "${text}")
  string(REGEX REPLACE "^CREATE PROCEDURE" "${create}" text "${text}")
  if(name MATCHES "^0")
    string(REGEX REPLACE ";$" "" text "${text}")
    string(REPLACE ";\nCREATE" "<NEXT>CREATE" text "${text}")
  endif()
  embed_quote(text)
  string(REPLACE "<NEXT>" "\",\n    \"" text "${text}")
  string(APPEND code "    \"${text}\",\n")
endforeach()
string(APPEND code "    NULL,\n};\n")
file(WRITE ${OUT} "${code}")
