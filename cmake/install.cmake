# What `make install` puts where. DESTDIR and CMAKE_INSTALL_PREFIX are honoured by CMake itself.
include(CMakePackageConfigHelpers)

install(TARGETS holdfast EXPORT holdfast LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/holdfast DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")

# pkg-config --libs holdfast. Paths relative to the file itself: the tree may be moved.
file(RELATIVE_PATH pc_to_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(cmake/holdfast.pc.in ${CMAKE_BINARY_DIR}/holdfast.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/holdfast.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# find_package(Holdfast) gives Holdfast::holdfast.
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

# completions/: holdfast.bash, _holdfast (zsh), holdfast.fish.
if(EXISTS ${CMAKE_SOURCE_DIR}/completions/holdfast.bash)
  install(FILES completions/holdfast.bash RENAME holdfast
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
endif()
if(EXISTS ${CMAKE_SOURCE_DIR}/completions/_holdfast)
  install(FILES completions/_holdfast DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
endif()
if(EXISTS ${CMAKE_SOURCE_DIR}/completions/holdfast.fish)
  install(FILES completions/holdfast.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()
