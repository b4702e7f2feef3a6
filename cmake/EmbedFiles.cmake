# Files that become part of a program: a .cpp that holds the bytes of every file of a folder, made when one of them has changed.
#
# ebb_embed(TARGET FOLDER HEADER FUNCTION): HEADER declares ebb::embedded_file; FUNCTION() gives all of the folder's files, sorted by name.
function(ebb_embed target folder header function)
  file(GLOB files CONFIGURE_DEPENDS ${folder}/*)
  set(made ${CMAKE_CURRENT_BINARY_DIR}/${function}.cpp)
  add_custom_command(
    OUTPUT ${made}
    COMMAND ${CMAKE_COMMAND} -DFOLDER=${folder} -DHEADER=${header} -DFUNCTION=${function} -DMADE=${made} -P ${PROJECT_SOURCE_DIR}/cmake/write_embedded.cmake
    DEPENDS ${files} ${PROJECT_SOURCE_DIR}/cmake/write_embedded.cmake
    VERBATIM)
  target_sources(${target} PRIVATE ${made})
  set_source_files_properties(${made} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
endfunction()
