# Target kz_executorch: the runtime, its CPU kernels and every backend of the ExecuTorch at hand.
#
# Two providers have a CMake package called executorch: the Python wheel (namespaced targets, shared libraries) and the install
# prefix of a source build, as used for Android (bare targets, static libraries). Give either with CMAKE_PREFIX_PATH or
# executorch_DIR; with neither, the wheel of the Python in use is taken.
# Sets KZ_EXECUTORCH_VERSION, and for the wheel KZ_EXECUTORCH_LIBRARY_DIR.

if(NOT CMAKE_CROSSCOMPILING AND NOT executorch_DIR)
  kz_find_python_package(executorch executorch_package)
  if(executorch_package)
    list(APPEND CMAKE_PREFIX_PATH "${executorch_package}/share/cmake" "${executorch_package}")
  endif()
endif()
find_package(executorch REQUIRED)

set(KZ_EXECUTORCH_VERSION "${executorch_VERSION}" CACHE STRING "Version of ExecuTorch, where its package does not tell")
if(NOT KZ_EXECUTORCH_VERSION)
  message(FATAL_ERROR "This ExecuTorch package has no version: give it with -DKZ_EXECUTORCH_VERSION=1.5.1")
endif()

add_library(kz_executorch INTERFACE)

# Links the first of the given targets that exists; with WHOLE_ARCHIVE all of it, for libraries that only register themselves.
function(kz_link_first_target)
  cmake_parse_arguments(PARSE_ARGV 0 link "REQUIRED;WHOLE_ARCHIVE" "" "TARGETS")
  foreach(target IN LISTS link_TARGETS)
    if(TARGET ${target})
      if(link_WHOLE_ARCHIVE)
        target_link_libraries(kz_executorch INTERFACE "$<LINK_LIBRARY:WHOLE_ARCHIVE,${target}>")
      else()
        target_link_libraries(kz_executorch INTERFACE ${target})
      endif()
      return()
    endif()
  endforeach()
  if(link_REQUIRED)
    message(FATAL_ERROR "This ExecuTorch has none of the targets: ${link_TARGETS}")
  endif()
endfunction()

if(TARGET executorch::runtime)
  set(KZ_EXECUTORCH_LIBRARY_DIR "${EXECUTORCH_RUNTIME_LIBRARY_DIR}")
  # The wheel's targets bake the absolute path of the environment that built the runner into it; ours are relative.
  foreach(component IN ITEMS runtime kernels_optimized kernels_quantized backend_xnnpack backend_qnn threadpool)
    if(TARGET executorch::${component})
      get_target_property(options executorch::${component} INTERFACE_LINK_OPTIONS)
      list(FILTER options EXCLUDE REGEX "-rpath,")
      set_target_properties(executorch::${component} PROPERTIES INTERFACE_LINK_OPTIONS "${options}")
    endif()
  endforeach()
  kz_link_first_target(REQUIRED TARGETS executorch::runtime)
  kz_link_first_target(REQUIRED TARGETS executorch::kernels_optimized)
  kz_link_first_target(REQUIRED TARGETS executorch::threadpool)
  kz_link_first_target(TARGETS executorch::kernels_quantized)
  kz_link_first_target(TARGETS executorch::backend_xnnpack)
  kz_link_first_target(TARGETS executorch::backend_qnn)
else()
  kz_link_first_target(REQUIRED TARGETS executorch)
  kz_link_first_target(REQUIRED TARGETS extension_data_loader)
  kz_link_first_target(REQUIRED TARGETS extension_threadpool)
  kz_link_first_target(REQUIRED WHOLE_ARCHIVE TARGETS optimized_native_cpu_ops_lib portable_ops_lib)
  kz_link_first_target(WHOLE_ARCHIVE TARGETS quantized_ops_lib)
  kz_link_first_target(WHOLE_ARCHIVE TARGETS xnnpack_backend)
  kz_link_first_target(WHOLE_ARCHIVE TARGETS qnn_executorch_backend)
endif()
