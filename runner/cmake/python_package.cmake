# Finds files of Python packages without importing them.

# Sets `result` to the folder of the Python package `name`, or to an empty string. PYTHON_EXECUTABLE-like hints are those of
# find_package(Python); scikit-build-core gives them, otherwise the first python3 of the PATH answers.
function(kz_find_python_package name result)
  find_package(Python QUIET COMPONENTS Interpreter)
  set(folder "")
  if(Python_Interpreter_FOUND)
    execute_process(
      COMMAND
        "${Python_EXECUTABLE}" -c
        "from importlib.util import find_spec; spec = find_spec('${name}'); print(next(iter(spec.submodule_search_locations)) if spec else '', end='')"
      OUTPUT_VARIABLE folder
      ERROR_QUIET)
  endif()
  set(${result} "${folder}" PARENT_SCOPE)
endfunction()
