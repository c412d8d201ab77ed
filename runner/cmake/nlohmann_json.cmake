# Target kz_json: the headers of nlohmann::json, from a CMake package if there is one, else from the Python package of that name.

add_library(kz_json INTERFACE)
find_package(nlohmann_json QUIET)
if(TARGET nlohmann_json::nlohmann_json)
  target_link_libraries(kz_json INTERFACE nlohmann_json::nlohmann_json)
else()
  kz_find_python_package(nlohmann_json json_package)
  if(NOT EXISTS "${json_package}/include/nlohmann/json.hpp")
    message(FATAL_ERROR "nlohmann_json was not found: pip install nlohmann_json")
  endif()
  target_include_directories(kz_json SYSTEM INTERFACE "${json_package}/include")
endif()
