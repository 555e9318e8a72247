# SPDX-License-Identifier: MIT
#
# cmake -DDIR=<here> -DOUT=<file> -P embed.cmake: the files of the page as C, a table of struct page_file (page.h). As numbers and not as
# strings: so no byte of a file has to be escaped, and none can end the literal.

cmake_minimum_required(VERSION 3.20)
include(${DIR}/../../cmake/embed.cmake)

set(type_html "text/html; charset=utf-8")
set(type_css "text/css; charset=utf-8")
set(type_js "text/javascript; charset=utf-8")
set(type_svg "image/svg+xml")

file(GLOB files RELATIVE ${DIR} ${DIR}/*.html ${DIR}/*.css ${DIR}/*.js ${DIR}/*.svg)
list(SORT files)
set(arrays "")
set(table "")
set(number 0)
foreach(file IN LISTS files)
  file(READ ${DIR}/${file} bytes HEX)
  file(SHA256 ${DIR}/${file} hash)
  string(SUBSTRING ${hash} 0 24 hash)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(APPEND arrays "\nstatic const unsigned char file_${number}[] = { /* ${file} */\n${bytes}\n};\n")
  get_filename_component(extension ${file} LAST_EXT)
  string(SUBSTRING ${extension} 1 -1 extension)
  set(path "/${file}")
  if(file STREQUAL "index.html")
    set(path "/")
  endif()
  string(APPEND table "    { \"${path}\", \"${type_${extension}}\", file_${number}, sizeof file_${number}, \"\\\"${hash}\\\"\" },\n")
  math(EXPR number "${number} + 1")
endforeach()

file(WRITE ${OUT} "${EMBED_HEAD}#include \"page/page.h\"\n${arrays}
const struct page_file page_files[] = {\n${table}};\nconst size_t page_file_count = sizeof page_files / sizeof page_files[0];\n")
