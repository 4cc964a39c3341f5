#include "sextant/data/demo_text.h"

#include <fmt/format.h>

#include <array>
#include <span>
#include <string_view>

#include "sextant/base/rng.h"

namespace sx {

namespace {

using Words = std::span<const std::string_view>;

constexpr std::array<std::string_view, 16> kNames{
    "Ada", "Bruno", "Clara", "Dario", "Emil", "Flora", "Goran", "Hanna",
    "Ivo", "Jonas", "Karla", "Lena",  "Milo", "Nora",  "Otto",  "Petra"};
constexpr std::array<std::string_view, 12> kPlaces{
    "the harbour", "the old mill",     "the market square", "the lighthouse",
    "the library", "the north bridge", "the orchard",       "the railway station",
    "the bakery",  "the school yard",  "the castle gate",   "the river bank"};
constexpr std::array<std::string_view, 12> kTrades{
    "baker",  "carpenter", "sailor", "teacher", "gardener",   "miller",
    "weaver", "painter",   "smith",  "doctor",  "bookbinder", "shepherd"};
constexpr std::array<std::string_view, 16> kThings{
    "lantern", "basket",  "map",    "kettle", "ladder", "umbrella", "violin", "notebook",
    "compass", "blanket", "mirror", "hammer", "candle", "bucket",   "clock",  "rope"};
constexpr std::array<std::string_view, 10> kColours{"red",   "blue",  "green", "yellow", "white",
                                                    "black", "brown", "grey",  "silver", "orange"};
constexpr std::array<std::string_view, 10> kActs{"carried",  "cleaned", "painted", "repaired",
                                                 "borrowed", "found",   "hid",     "sold",
                                                 "measured", "polished"};
constexpr std::array<std::string_view, 8> kTimes{
    "In the morning", "At noon",          "After lunch",   "In the evening",
    "Before sunrise", "During the storm", "On market day", "Late at night"};
constexpr std::array<std::string_view, 7> kDays{"Monday", "Tuesday",  "Wednesday", "Thursday",
                                                "Friday", "Saturday", "Sunday"};
constexpr std::array<std::string_view, 13> kNumbers{"zero", "one",    "two",   "three", "four",
                                                    "five", "six",    "seven", "eight", "nine",
                                                    "ten",  "eleven", "twelve"};

/// Draws of one document, in order.
class Draws {
 public:
  Draws(std::uint64_t seed, std::uint64_t index) : stream_(seed, "data.demo", index) {}
  std::size_t below(std::size_t count) {
    return static_cast<std::size_t>(stream_.u64(next_++) % count);
  }
  std::string_view of(Words words) { return words[below(words.size())]; }

 private:
  RandomStream stream_;
  std::uint64_t next_ = 0;
};

/// The person a page is about: what is told at its beginning is asked for at its end.
struct Person {
  std::string_view name, trade, place, colour, thing;
  std::size_t count;
};

std::string act(Draws& draws, std::string_view name) {
  return fmt::format("{} {} {} the {} {} near {}.", draws.of(kTimes), name, draws.of(kActs),
                     draws.of(kColours), draws.of(kThings), draws.of(kPlaces));
}

std::string meeting(Draws& draws, std::string_view name) {
  const std::string_view other = draws.of(kNames);
  return fmt::format("On {} {} met {} at {}, and they talked about a {} {}.", draws.of(kDays), name,
                     other, draws.of(kPlaces), draws.of(kColours), draws.of(kThings));
}

std::string sum(Draws& draws) {
  const std::size_t a = draws.below(7), b = draws.below(6);
  return fmt::format("If you add {} and {}, you get {}.", kNumbers[a], kNumbers[b],
                     kNumbers[a + b]);
}

std::string count_up(Draws& draws) {
  const std::size_t first = draws.below(8);
  return fmt::format("We count: {}, {}, {}, {}, {}.", kNumbers[first], kNumbers[first + 1],
                     kNumbers[first + 2], kNumbers[first + 3], kNumbers[first + 4]);
}

std::string next_day(Draws& draws) {
  const std::size_t day = draws.below(kDays.size());
  return fmt::format("The day after {} is {}.", kDays[day], kDays[(day + 1) % kDays.size()]);
}

std::string list(Draws& draws, const Person& person) {
  std::string text = fmt::format("{} needs for the work:\n", person.name);
  for (std::size_t i = 2 + draws.below(3); i > 0; --i) {
    text += fmt::format("- a {} {}\n", draws.of(kColours), draws.of(kThings));
  }
  return text;
}

std::string question(Draws& draws, const Person& person) {
  switch (draws.below(4)) {
    case 0: return fmt::format("Who lives near {}? It is {}.", person.place, person.name);
    case 1:
      return fmt::format("What is the trade of {}? {} is a {}.", person.name, person.name,
                         person.trade);
    case 2:
      return fmt::format("How many things did {} bring? {} brought {}.", person.name, person.name,
                         kNumbers[person.count]);
    default:
      return fmt::format("Which colour has the {} of {}? It is {}.", person.thing, person.name,
                         person.colour);
  }
}

std::string paragraph(Draws& draws, const Person& person) {
  std::string text;
  for (std::size_t i = 2 + draws.below(3); i > 0; --i) {
    switch (draws.below(6)) {
      case 0: text += sum(draws); break;
      case 1: text += count_up(draws); break;
      case 2: text += next_day(draws); break;
      case 3: text += meeting(draws, person.name); break;
      default: text += act(draws, person.name); break;
    }
    text += i > 1 ? " " : "\n";
  }
  return text;
}

}  // namespace

std::string demo_document(std::uint64_t seed, std::uint64_t index) {
  Draws draws(seed, index);
  const Person person{draws.of(kNames),   draws.of(kTrades), draws.of(kPlaces),
                      draws.of(kColours), draws.of(kThings), 2 + draws.below(11)};
  std::string text = fmt::format("{} the {}\n\n", person.name, person.trade);
  text += fmt::format("{} is a {} and lives near {}. ", person.name, person.trade, person.place);
  text += fmt::format("The {} of {} is {}. ", person.thing, person.name, person.colour);
  text += fmt::format("{} brought {} things.\n\n", person.name, kNumbers[person.count]);
  for (std::size_t i = 1 + draws.below(3); i > 0; --i) text += paragraph(draws, person) + "\n";
  if (draws.below(2) == 0) text += list(draws, person) + "\n";
  for (std::size_t i = 1 + draws.below(3); i > 0; --i) text += question(draws, person) + "\n";
  return text;
}

std::vector<std::string> demo_documents(std::uint64_t seed, std::uint64_t num_bytes) {
  std::vector<std::string> documents;
  for (std::uint64_t bytes = 0, index = 0; bytes < num_bytes; ++index) {
    documents.push_back(demo_document(seed, index));
    bytes += documents.back().size();
  }
  return documents;
}

}  // namespace sx
