# What every target of the project is compiled with, and ebb_library(), the one way to make a folder's target.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1") # no NDEBUG: EBB_ASSERT stays on in release
set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g1 -DEBB_DEBUG_ASSERTS=1") # with sanitizers, -O1 takes three times as long to compile

find_package(Threads REQUIRED)
find_program(EBB_CCACHE ccache)
if(EBB_CCACHE)
  # Without these it never reuses a file that begins with a precompiled header.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${EBB_CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${EBB_CCACHE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
  endif()
endif()

# Placement never changes an answer, so the compiler may not contract or reassociate a float expression anywhere.
function(ebb_cxx_options) # for C++ alone: nvcc knows none of them
  foreach(option ${ARGN})
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:${option}>)
  endforeach()
endfunction()
ebb_cxx_options(-ffp-contract=off -fno-fast-math -fno-math-errno -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual)
if(EBB_WERROR)
  ebb_cxx_options(-Werror)
endif()
if(EBB_SANITIZE STREQUAL "address")
  # null: CAF 0.17 and libstdc++ bind null references to empty tuples; vptr and alignment cost build time and find nothing here.
  add_compile_options(-fsanitize=address,undefined -fno-sanitize=null,vptr,alignment -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-Wno-maybe-uninitialized)  # GCC's own checks confuse this warning, as its manual says: <regex>, <variant>
  endif()
elseif(EBB_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
  add_link_options(-fsanitize=thread)
endif()
if(EBB_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "EBB_FUZZ needs clang: cmake --preset fuzz, or -DCMAKE_CXX_COMPILER=clang++")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)  # coverage in the libraries too, so that the fuzzer is led by it
endif()

# From a precompiled header GCC 12 warns of the library's own strings, wrongly: its bug 105329.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT CMAKE_DISABLE_PRECOMPILE_HEADERS)
  ebb_cxx_options(-Wno-array-bounds -Wno-restrict -Wno-stringop-overflow -Wno-stringop-overread)
endif()

# What most files of the project include; read once, it saves a quarter of the compile time. The preset tsan does without, so that a file that
# lacks an include shows.
set(EBB_PRECOMPILED <algorithm> <atomic> <chrono> <filesystem> <functional> <map> <memory> <mutex> <optional> <span> <sstream> <string>
                    <thread> <unordered_map> <variant> <vector> <tl/expected.hpp>)

# ebb_library(NAME [LIBRARIES ...]): the static library of the current folder, from every .cpp in it and below.
function(ebb_library name)
  cmake_parse_arguments(arg "" "" "LIBRARIES" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  if(sources)
    add_library(${name} STATIC ${sources})
    target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR})
    target_link_libraries(${name} PUBLIC ${arg_LIBRARIES})
  else()
    add_library(${name} INTERFACE)
    target_include_directories(${name} INTERFACE ${PROJECT_SOURCE_DIR})
    target_link_libraries(${name} INTERFACE ${arg_LIBRARIES})
  endif()
endfunction()
