#include "sextant/dcp/pickle_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace sx {
namespace {

using Kind = PickleValue::Kind;
using testing::HasSubstr;

constexpr auto kAllowed = std::to_array<std::string_view>({"torch.Size", "a.B"});

Result<PickleTree> read(std::string_view bytes) { return read_pickle(bytes, kAllowed); }

template <std::size_t N>
std::string bytes(const char (&text)[N]) {
  return std::string(text, N - 1);
}

TEST(PickleReader, ReadsPlainValues) {
  // {"a": [1, -2, 300, None, True, 2.5], "b": ("x", b"y", -1)}
  const std::string text = bytes(
      "\x80\x04\x95\x40\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x01"
      "a]\x94(K\x01J\xfe\xff\xff\xffM\x2c\x01N\x88G\x40\x04\x00\x00\x00\x00\x00\x00"
      "e\x8c\x01"
      "b\x8c\x01xC\x01y\x8a\x01\xff\x87u.");
  std::string framed = text;
  framed[3] = static_cast<char>(text.size() - 11);
  const auto tree = read(framed);
  ASSERT_TRUE(tree.ok()) << tree.error().to_string();
  const PickleValue* list = tree->find(tree->top(), "a");
  ASSERT_NE(list, nullptr);
  ASSERT_EQ(list->items.size(), 6u);
  EXPECT_EQ(tree->at(list->items[0]).integer, 1);
  EXPECT_EQ(tree->at(list->items[1]).integer, -2);
  EXPECT_EQ(tree->at(list->items[2]).integer, 300);
  EXPECT_EQ(tree->at(list->items[3]).kind, Kind::kNone);
  EXPECT_EQ(tree->at(list->items[4]).kind, Kind::kBool);
  EXPECT_EQ(tree->at(list->items[5]).real, 2.5);
  const PickleValue* tuple = tree->find(tree->top(), "b");
  EXPECT_EQ(tree->at(tuple->items[1]).text, "y");
  EXPECT_EQ(tree->at(tuple->items[2]).integer, -1);
  EXPECT_EQ(tree->find(tree->top(), "c"), nullptr);
}

TEST(PickleReader, ObjectsStayNames) {
  const auto tree =
      read(bytes("\x80\x02"
                 "ca\nB\n(K\x07tR}X\x01\x00\x00\x00sK\x08sb."));
  ASSERT_TRUE(tree.ok()) << tree.error().to_string();
  EXPECT_EQ(tree->top().kind, Kind::kObject);
  EXPECT_EQ(tree->top().text, "a.B");
  EXPECT_EQ(tree->at(tree->at(tree->top().items[0]).items[0]).integer, 7);
  EXPECT_EQ(tree->field(tree->top(), "s")->integer, 8);
}

// What would run code in Python is refused, each with the place of the byte.
TEST(PickleReader, HostilePicklesAreRefusedWithTheirPlace) {
  struct Case {
    const char* what;
    std::string bytes;
    std::size_t at;
  };
  const Case cases[] = {
      {"os.system",
       bytes("\x80\x02"
             "cos\nsystem\n(X\x02\x00\x00\x00idtR."),
       2},
      {"posix.system", bytes("\x80\x04\x8c\x05posix\x8c\x06system\x93."), 17},
      {"builtins.eval",
       bytes("\x80\x02"
             "cbuiltins\neval\n."),
       2},
      {"builtins.getattr",
       bytes("\x80\x02"
             "c__builtin__\ngetattr\n."),
       2},
      {"subprocess.Popen",
       bytes("\x80\x02"
             "csubprocess\nPopen\n."),
       2},
      {"a longer name than an allowed one",
       bytes("\x80\x02"
             "ctorch\nSizes\n."),
       2},
      {"an allowed name's prefix",
       bytes("\x80\x02"
             "ctorch\nSiz\n."),
       2},
      {"a dotted member",
       bytes("\x80\x04\x8c\x01"
             "a\x8c\x07"
             "B.__x__\x93."),
       14},
      {"INST", bytes("\x80\x02(ios\nsystem\n."), 3},
      {"OBJ",
       bytes("\x80\x02(N"
             "o."),
       4},
      {"EXT1", bytes("\x80\x02\x82\x01."), 2},
      {"NEWOBJ_EX",
       bytes("\x80\x04"
             "NNN\x92."),
       5},
      {"PERSID by line", bytes("\x80\x02Pid\n."), 2},
      {"DUP", bytes("\x80\x02N2."), 3},
      {"protocol 0", bytes("\x80\x00N."), 0},
      {"protocol 9", bytes("\x80\x09N."), 0},
      {"text as Python code", bytes("\x80\x02S'x'\n."), 2},
      {"a number as text", bytes("\x80\x02I7\n."), 2},
      {"a number of 255 bytes", bytes("\x80\x02\x8a\xff."), 2},
  };
  for (const Case& c : cases) {
    const auto tree = read(c.bytes);
    ASSERT_FALSE(tree.ok()) << c.what;
    EXPECT_EQ(tree.error().kind, ErrorKind::kUnsupported) << c.what << tree.error().message;
    EXPECT_THAT(tree.error().message, HasSubstr("byte " + std::to_string(c.at) + ":")) << c.what;
  }
}

TEST(PickleReader, BrokenPicklesAreErrors) {
  for (const std::string& text : {std::string(),
                                  bytes("\x80"),
                                  bytes("\x80\x02"),
                                  bytes("\x80\x02."),
                                  bytes("\x80\x02NN."),
                                  bytes("\x80\x02("),
                                  bytes("\x80\x02(."),
                                  bytes("\x80\x02t."),
                                  bytes("\x80\x02"
                                        "e."),
                                  bytes("\x80\x02Na."),
                                  bytes("\x80\x02NNs."),
                                  bytes("\x80\x02}(Nu."),
                                  bytes("\x80\x02h\x00."),
                                  bytes("\x80\x02q\x00."),
                                  bytes("\x80\x02X\xff\xff\xff\x7f."),
                                  bytes("\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xff."),
                                  bytes("\x80\x02G1234567"),
                                  bytes("\x80\x02"
                                        "catorch"),
                                  bytes("\x80\x02NNR."),
                                  bytes("\x80\x02N)R."),
                                  bytes("\x80\x02"
                                        "ca\nB\nNR."),
                                  bytes("\x80\x02Nb."),
                                  bytes("\x80\x02NNb."),
                                  bytes("\x80\x02"
                                        "K\x01K\x02\x93."),
                                  bytes("\x80\x02Q."),
                                  bytes("\x80\x02\x87."),
                                  bytes("\x80\x04\x95\xff\x00\x00\x00\x00\x00\x00\x00N."),
                                  bytes("\x80\x02J\x00")}) {
    const auto tree = read(text);
    ASSERT_FALSE(tree.ok()) << testing::PrintToString(text);
    EXPECT_EQ(tree.error().kind, ErrorKind::kCorrupt) << tree.error().message;
  }
}

// A list that holds itself is a value like another one.
TEST(PickleReader, CyclesAreNoTrouble) {
  const auto tree =
      read(bytes("\x80\x02]q\x00h\x00"
                 "a."));
  ASSERT_TRUE(tree.ok());
  EXPECT_EQ(tree->top().items, (std::vector<PickleValue::Ref>{tree->root}));
}

}  // namespace
}  // namespace sx
