# SPDX-License-Identifier: MIT
#
# cmake -DDIR=<here>/sql -DOUT=<file> -P embed.cmake: the statements as C, `hfi_ma_schema_text`, in the order of
# their files. A file is one statement; those that begin with 0 have several. @NOW@ is the server's clock. Comments and
# indentation are left out, so no literal may go over several lines or have "--" in it.

cmake_minimum_required(VERSION 3.20)
file(GLOB files ${DIR}/*.sql)
list(SORT files)
set(code "/* Made by embed.cmake: do not edit. */\n#include \"engine/mariadb/ma.h\"\n\n")
string(APPEND code "#pragma GCC diagnostic ignored \"-Woverlength-strings\"\n\n")
string(APPEND code "const char *const hfi_ma_schema_text[] = {\n")
foreach(file ${files})
  get_filename_component(name ${file} NAME_WE)
  file(READ ${file} text)
  string(PREPEND text "\n")
  string(REGEX REPLACE "\n[ \t]*--[^\n]*" "" text "${text}")
  string(REGEX REPLACE "\n[ \t\n]+" "\n" text "${text}")
  string(REGEX REPLACE "^\n" "" text "${text}")
  string(REGEX REPLACE "\n$" "" text "${text}")
  string(REPLACE "@NOW@" "CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS SIGNED)" text "${text}")
  string(REPLACE "\\" "\\\\" text "${text}")
  string(REPLACE "\"" "\\\"" text "${text}")
  if(name MATCHES "^0")
    string(REGEX REPLACE ";$" "" text "${text}")
    string(REPLACE ";\nCREATE" "\n\",\n    \"CREATE" text "${text}")
  endif()
  string(REPLACE "\n\",\n" "<NEXT>" text "${text}")
  string(REPLACE "\n" "\\n\"\n    \"" text "${text}")
  string(REPLACE "<NEXT>" "\",\n" text "${text}")
  string(APPEND code "    \"${text}\",\n")
endforeach()
string(APPEND code "    NULL,\n};\n")
file(WRITE ${OUT} "${code}")
