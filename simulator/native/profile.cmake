# Profile-guided optimisation of one target: hipsynth_by_profile(target profile.proftext).
# The profile says how often each branch was taken in typical work; clang lays code out and inlines by it. It is text,
# written by `python -m tools.profile_core`, and stays useful while sources change: functions that changed since are
# compiled as if there were none (silently here: `python -m tools.profile_core --check` names them, and a test asks).
option(HIPSYNTH_USE_PROFILE "Compile the core by its recorded profile" ON)
option(HIPSYNTH_RECORD_PROFILE "Build a core that records a profile when it runs (for tools/profile_core.py)" OFF)

function(hipsynth_by_profile target profile)
  if(HIPSYNTH_RECORD_PROFILE)
    target_compile_options(${target} PRIVATE -fprofile-instr-generate)
    target_link_options(${target} PUBLIC -fprofile-instr-generate)
    return()
  endif()
  if(HIPSYNTH_SANITIZE OR NOT HIPSYNTH_USE_PROFILE)
    return()
  endif()
  # The indexed form belongs to one release of LLVM, so the tool of the compiler itself makes it.
  string(REGEX MATCH "^[0-9]+" release "${CMAKE_CXX_COMPILER_VERSION}")
  file(REAL_PATH "${CMAKE_CXX_COMPILER}" compiler)
  cmake_path(GET compiler PARENT_PATH beside)
  find_program(HIPSYNTH_PROFDATA NAMES llvm-profdata NAMES_PER_DIR PATHS ${beside} NO_DEFAULT_PATH)
  find_program(HIPSYNTH_PROFDATA NAMES llvm-profdata-${release})
  if(NOT HIPSYNTH_PROFDATA)
    message(STATUS "llvm-profdata-${release} not found: the core is built without its profile, and a quarter slower")
    return()
  endif()
  get_filename_component(name ${profile} NAME_WE)
  set(indexed ${CMAKE_CURRENT_BINARY_DIR}/${name}.profdata)
  add_custom_command(
    OUTPUT ${indexed}
    COMMAND ${HIPSYNTH_PROFDATA} merge -o ${indexed} ${CMAKE_CURRENT_SOURCE_DIR}/${profile}
    DEPENDS ${profile}
    COMMENT "Indexing ${profile}"
    VERBATIM)
  target_compile_options(${target} PRIVATE
    -fprofile-instr-use=${indexed} -Wno-profile-instr-out-of-date -Wno-profile-instr-unprofiled)
  get_target_property(sources ${target} SOURCES)
  set_source_files_properties(${sources} PROPERTIES OBJECT_DEPENDS ${indexed})
endfunction()
