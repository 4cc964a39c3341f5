# cmake -DOUT=x.cpp -DFILE=model.txt -DFUNCTION=name -P embed_text.cmake: the file's text as sx::name().
file(READ ${FILE} text)
file(WRITE ${OUT} "#include <string_view>\n\nnamespace sx {\n\nstd::string_view ${FUNCTION}();\nstd::string_view ${FUNCTION}() {\n  static constexpr std::string_view kText = R\"~text~(${text})~text~\";\n  return kText;\n}\n\n}  // namespace sx\n")
