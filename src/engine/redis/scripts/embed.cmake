# SPDX-License-Identifier: MIT
#
# cmake -DDIR=<here> -DOUT=<file> [-DPREFIX=<prefix>] -P embed.cmake: the scripts as C, `const struct
# hfi_script hfi_script_<name>` (or <prefix><name>: two engines may be in one program) for each
# <name>.lua but the parts, which replace a line "-- include: state". The part `each` is one for both engines: the one beside
# this file.
#
# What is embedded (and sent with EVAL) has no comment lines, no indentation and no empty lines. So a
# script must not have a string that goes over several lines.

cmake_minimum_required(VERSION 3.20)
file(GLOB files ${DIR}/*.lua)
list(SORT files)
if(NOT DEFINED PREFIX)
  set(PREFIX hfi_script_)
endif()
set(parts)
foreach(part clock state common foreign node)
  if(EXISTS ${DIR}/${part}.lua)
    list(APPEND parts ${part})
    file(READ ${DIR}/${part}.lua ${part})
  endif()
endforeach()
list(APPEND parts each)
file(READ ${CMAKE_CURRENT_LIST_DIR}/each.lua each)

set(code "/* Made by embed.cmake: do not edit. */\n#include \"engine/redis/scripts.h\"\n\n")
string(APPEND code "#pragma GCC diagnostic ignored \"-Woverlength-strings\"\n")
foreach(file ${files})
  get_filename_component(name ${file} NAME_WE)
  if(name IN_LIST parts)
    continue()
  endif()
  file(READ ${file} text)
  foreach(part ${parts})
    string(REPLACE "-- include: ${part}\n" "${${part}}" text "${text}")
  endforeach()
  string(PREPEND text "\n")
  string(REGEX REPLACE "\n[ \t]*--[^\n]*" "" text "${text}") # whole lines
  string(REGEX REPLACE " +-- [^\n]*" "" text "${text}")      # behind code
  string(REGEX REPLACE "\n[ \t\n]+" "\n" text "${text}")
  string(REGEX REPLACE "^\n" "" text "${text}")
  string(SHA1 sha "${text}")
  string(LENGTH "${text}" len)
  string(REPLACE "\\" "\\\\" text "${text}")
  string(REPLACE "\"" "\\\"" text "${text}")
  string(REPLACE "\n" "\\n\"\n    \"" text "${text}")
  string(APPEND code "\nconst struct hfi_script ${PREFIX}${name} = {\n    \"${name}\",\n"
    "    \"${text}\",\n    ${len}, \"${sha}\"\n};\n")
endforeach()
file(WRITE ${OUT} "${code}")
