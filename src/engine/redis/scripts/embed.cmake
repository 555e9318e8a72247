# SPDX-License-Identifier: MIT
#
# cmake -DDIR=<here> -DOUT=<file> -P embed.cmake: the scripts as C, `const struct hfi_script
# hfi_script_<name>` for each <name>.lua but common.lua, which is put before those that
# begin with "-- uses: common".
#
# What is embedded (and sent with EVAL) has no comment lines, no indentation and no empty lines. So a
# script must not have a string that goes over several lines.

file(GLOB files ${DIR}/*.lua)
list(SORT files)
file(READ ${DIR}/common.lua common)

set(code "/* Made by embed.cmake: do not edit. */\n#include \"engine/redis/scripts.h\"\n\n")
string(APPEND code "#pragma GCC diagnostic ignored \"-Woverlength-strings\"\n")
foreach(file ${files})
  get_filename_component(name ${file} NAME_WE)
  if(name STREQUAL common)
    continue()
  endif()
  file(READ ${file} text)
  if(text MATCHES "^-- uses: common\n")
    string(PREPEND text "${common}")
  endif()
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
  string(APPEND code "\nconst struct hfi_script hfi_script_${name} = {\n    \"${name}\",\n"
    "    \"${text}\",\n    ${len}, \"${sha}\"\n};\n")
endforeach()
file(WRITE ${OUT} "${code}")
