# cmake -DOUT=x.cpp -DFILES="a.toml;b.toml" -P embed.cmake: the files as sx::embedded_recipes().
list(SORT FILES)
set(entries "")
foreach(file ${FILES})
  get_filename_component(name ${file} NAME_WE)
  file(READ ${file} text)
  string(APPEND entries "    {\"${name}\", R\"recipe(${text})recipe\"},\n")
endforeach()
file(WRITE ${OUT} "#include \"sextant/recipe/embedded.h\"\n\nnamespace sx {\n\nstd::span<const EmbeddedFile> embedded_recipes() {\n  static constexpr EmbeddedFile files[] = {\n${entries}  };\n  return files;\n}\n\n}  // namespace sx\n")
