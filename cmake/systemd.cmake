# SPDX-License-Identifier: MIT
# The units of packaging/systemd, with the paths of this installation. Installing them changes nothing: holdfast-serve.service is not
# enabled, and the others are examples for an administrator to copy.
# The default is relative, so it follows a prefix that is changed later.
set(HOLDFAST_UNIT_DIR "lib/systemd/system" CACHE STRING "where HOLDFAST_SYSTEMD installs units; relative to the prefix")
set(units ${CMAKE_SOURCE_DIR}/packaging/systemd)
file(GLOB templates CONFIGURE_DEPENDS ${units}/*.in)
foreach(template IN LISTS templates)
  get_filename_component(name ${template} NAME)
  string(REGEX REPLACE "\\.in$" "" name ${name})
  configure_file(${template} ${CMAKE_BINARY_DIR}/systemd/${name} @ONLY)
endforeach()
if(HOLDFAST_SYSTEMD)
  install(FILES ${CMAKE_BINARY_DIR}/systemd/holdfast-serve.service DESTINATION ${HOLDFAST_UNIT_DIR})
  install(FILES ${CMAKE_BINARY_DIR}/systemd/nightly.service ${units}/nightly.timer
    ${CMAKE_BINARY_DIR}/systemd/leader.service
    ${CMAKE_BINARY_DIR}/systemd/serve-credentials.conf
    ${units}/serve-group-store.conf ${units}/group-store.sysusers ${units}/group-store.tmpfiles
    DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/holdfast/examples/systemd)
endif()
