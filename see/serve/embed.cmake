# SPDX-License-Identifier: MIT
#
# cmake -DIN=openapi.json -DOUT=<file> -P embed.cmake: the file as C (openapi.h), as numbers, so that nothing has to be escaped.

cmake_minimum_required(VERSION 3.20)
include(${CMAKE_CURRENT_LIST_DIR}/../../cmake/embed.cmake)
file(READ ${IN} bytes HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${OUT} "${EMBED_HEAD}#include \"openapi.h\"\n
const unsigned char openapi_json[] = {\n${bytes}\n};\nconst size_t openapi_json_len = sizeof openapi_json;\n")
