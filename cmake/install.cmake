# What `make install` puts where. DESTDIR and CMAKE_INSTALL_PREFIX are honoured by CMake itself.
include(CMakePackageConfigHelpers)

install(TARGETS holdfast EXPORT holdfast LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET holdfast_static)
  install(TARGETS holdfast_static ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(DIRECTORY include/holdfast DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")

# pkg-config --libs holdfast. Paths relative to the file itself: the tree may be moved.
file(RELATIVE_PATH pc_to_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(cmake/holdfast.pc.in ${CMAKE_BINARY_DIR}/holdfast.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/holdfast.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# find_package(Holdfast) gives Holdfast::holdfast, and Holdfast::cpp of bindings/cpp.
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Holdfast)
install(EXPORT holdfast NAMESPACE Holdfast:: FILE HoldfastTargets.cmake DESTINATION ${package_dir})
configure_package_config_file(cmake/HoldfastConfig.cmake.in ${CMAKE_BINARY_DIR}/HoldfastConfig.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/HoldfastConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/HoldfastConfig.cmake ${CMAKE_BINARY_DIR}/HoldfastConfigVersion.cmake
  DESTINATION ${package_dir})

foreach(section RANGE 1 9)
  file(GLOB pages CONFIGURE_DEPENDS man/*.${section})
  if(pages)
    install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
  endif()
endforeach()

# A page for each call of the C interface: those of man/man3, and for their other calls a page that leads there. They are also in the
# build, for `man -M build/man hf_acquire`.
set(call_pages ${CMAKE_BINARY_DIR}/man/man3)
file(REMOVE_RECURSE ${call_pages})
file(GLOB pages CONFIGURE_DEPENDS man/man3/*.3)
foreach(page ${pages})
  get_filename_component(page_name ${page} NAME)
  configure_file(${page} ${call_pages}/${page_name} COPYONLY)
  file(STRINGS ${page} names REGEX "^\\.Nm hf_")
  foreach(name ${names})
    string(REGEX REPLACE "^\\.Nm (hf_[a-z0-9_]+).*" "\\1.3" name "${name}")
    if(NOT name STREQUAL page_name)
      file(WRITE ${call_pages}/${name} ".so man3/${page_name}\n")
    endif()
  endforeach()
endforeach()
install(DIRECTORY ${call_pages} DESTINATION ${CMAKE_INSTALL_MANDIR})

# The examples, which build against what is installed: share/doc/holdfast/examples/Makefile.
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DOCDIR}
  USE_SOURCE_PERMISSIONS
  FILES_MATCHING PATTERN "*.c" PATTERN "*.h" PATTERN "*.lua" PATTERN "*.sh" PATTERN "*.md" PATTERN "Makefile"
  PATTERN "on_test_server.sh" EXCLUDE)
