# SPDX-License-Identifier: MIT
#
# cmake -DDIR=<here> -DOUT=<file> -P embed.cmake: page.css and page.js as C (page_files.h). As numbers, so that nothing has to be escaped.
cmake_minimum_required(VERSION 3.20)
include(${DIR}/../../cmake/embed.cmake)
set(code "${EMBED_HEAD}#include \"draw/page_files.h\"\n")
foreach(kind css js)
  file(READ ${DIR}/page.${kind} bytes HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(APPEND code "\nconst unsigned char page_${kind}[] = {\n${bytes}\n};\nconst size_t page_${kind}_bytes = sizeof page_${kind};\n")
endforeach()
file(WRITE ${OUT} "${code}")
