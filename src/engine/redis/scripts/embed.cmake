# SPDX-License-Identifier: MIT
#
# cmake -DDIR=<here> -DOUT=<file> [-DPREFIX=<prefix>] [-DONLY=<regex>] [-DSKIP=<regex>] [-DHEADER=<header>] -P embed.cmake: the
# scripts as C, `const struct
# hfi_script hfi_script_<name>` (or <prefix><name>: two engines may be in one program) for each
# <name>.lua but the parts, which replace a line "-- include: state". The part `each` is one for both engines: the one beside
# this file.
#
# What is embedded (and sent with EVAL) has no comment lines, no indentation and no empty lines. See
# cmake/embed.cmake.

cmake_minimum_required(VERSION 3.20)
include(${CMAKE_CURRENT_LIST_DIR}/../../../../cmake/embed.cmake)
file(GLOB files ${DIR}/*.lua)
list(SORT files)
if(NOT DEFINED PREFIX)
  set(PREFIX hfi_script_)
endif()
if(NOT DEFINED HEADER)
  set(HEADER engine/redis/scripts.h)
endif()
set(parts)
foreach(part clock state common thin inbox tell foreign node)
  if(EXISTS ${DIR}/${part}.lua)
    list(APPEND parts ${part})
    file(READ ${DIR}/${part}.lua ${part})
  endif()
endforeach()
list(APPEND parts each)
file(READ ${CMAKE_CURRENT_LIST_DIR}/each.lua each)

set(code "${EMBED_HEAD}#include \"${HEADER}\"\n\n${EMBED_PRAGMA}")
foreach(file ${files})
  get_filename_component(name ${file} NAME_WE)
  if(name IN_LIST parts OR (SKIP AND name MATCHES "${SKIP}") OR (ONLY AND NOT name MATCHES "${ONLY}"))
    continue()
  endif()
  file(READ ${file} text)
  foreach(part ${parts})
    string(REPLACE "-- include: ${part}\n" "${${part}}" text "${text}")
  endforeach()
  embed_strip(text)
  string(SHA1 sha "${text}")
  string(LENGTH "${text}" len)
  embed_quote(text)
  string(APPEND code "\nconst struct hfi_script ${PREFIX}${name} = {\n    \"${name}\",\n"
    "    \"${text}\",\n    ${len}, \"${sha}\"\n};\n")
endforeach()
file(WRITE ${OUT} "${code}")
