# Run by ebb_embed (cmake/EmbedFiles.cmake): writes MADE, which holds the bytes of every file in FOLDER.
file(GLOB files ${FOLDER}/*)
list(SORT files)
set(arrays "")
set(entries "")
set(number 0)
foreach(file ${files})
  get_filename_component(name ${file} NAME)
  file(READ ${file} bytes HEX)
  file(SHA256 ${file} hash)
  string(SUBSTRING ${hash} 0 16 tag)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
  string(APPEND arrays "constexpr unsigned char bytes_${number}[] = {${bytes}0x00};\n")
  string(APPEND entries "      {\"${name}\", {reinterpret_cast<const char*>(bytes_${number}), sizeof(bytes_${number}) - 1}, \"${tag}\"},\n")
  math(EXPR number "${number} + 1")
endforeach()
file(WRITE ${MADE}
     "// Made by cmake/write_embedded.cmake from ${FOLDER}.\n#include \"${HEADER}\"\n\nnamespace ebb {\nnamespace {\n\n${arrays}\n}  // namespace\n\n"
     "std::span<const embedded_file> ${FUNCTION}() {\n  static const embedded_file all[] = {\n${entries}  };\n  return all;\n}\n\n}  // namespace ebb\n")
