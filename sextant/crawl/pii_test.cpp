#include "sextant/crawl/pii.h"

#include <gtest/gtest.h>

namespace sx {
namespace {

PiiOptions options_of(PiiPreset preset, std::vector<PiiKind> kinds = {}) {
  PiiOptions options;
  options.preset = preset;
  options.kinds = std::move(kinds);
  return options;
}

/// Masked text and how many there were.
std::pair<std::string, std::uint64_t> masked(const std::string& text, PiiPreset preset,
                                             PiiKind kind) {
  PiiCounts counts{};
  std::string out = replace_pii(text, options_of(preset, {kind}), counts);
  return {out, counts[static_cast<std::size_t>(kind)]};
}

TEST(PiiCs336, EmailsPhonesAddresses) {
  const auto email = [](const std::string& text) {
    return masked(text, PiiPreset::kCs336, PiiKind::kEmail);
  };
  const std::string token = "|||EMAIL_ADDRESS|||";
  EXPECT_EQ(email("contact me at test@gmail.com if"),
            std::make_pair("contact me at " + token + " if", std::uint64_t{1}));
  EXPECT_EQ(email("pl@fakedomain.ai and spl@fakedomain.ai"),
            std::make_pair(token + " and " + token, std::uint64_t{2}));
  EXPECT_EQ(email(token + ", pl@fakedomain.ai, spl@fakedomain.ai").second, 2u);
  for (const char* number : {"2831823829", "(283)-182-3829", "(283) 182 3829", "283-182-3829"}) {
    const auto got =
        masked("Call " + std::string(number) + ", please.", PiiPreset::kCs336, PiiKind::kPhone);
    EXPECT_EQ(got,
              std::make_pair(std::string("Call |||PHONE_NUMBER|||, please."), std::uint64_t{1}));
  }
  EXPECT_EQ(masked("12831823829 and 283182382", PiiPreset::kCs336, PiiKind::kPhone).second, 0u);
  EXPECT_EQ(masked("server at 192.0.2.146.", PiiPreset::kCs336, PiiKind::kIp),
            std::make_pair(std::string("server at |||IP_ADDRESS|||."), std::uint64_t{1}));
}

TEST(PiiDatatrove, EmailsAsItsPatternFindsThem) {
  const auto email = [](const std::string& text) {
    std::string out = text;
    for (const TextSpan& span : scan_emails_datatrove(text))
      out = text.substr(0, span.begin) + "EMAIL" + text.substr(span.end);
    return out;
  };
  for (const char* whole :
       {"email@123.123.123.123", "email@[123.123.123.123]", "1234567890@example.com",
        "_______@example.com", "email@example.web", "email@111.222.333.44444", "NAME@MYSITE.COM",
        "firstname+lastname@example.com"})
    EXPECT_EQ(email(whole), "EMAIL") << whole;
  const std::pair<const char*, const char*> partly[] = {
      {"email@example@example.com", "email@EMAIL"},
      {".email@example.com", ".EMAIL"},
      {"email..email@example.com", "email..EMAIL"},
      {"Abc..123@example.com", "Abc..EMAIL"},
      {"Joe Smith <email@example.com>", "Joe Smith <EMAIL>"},
      {"just”not”right@example.com", "just”not”EMAIL"}};
  for (const auto& [text, want] : partly) EXPECT_EQ(email(text), want);
  for (const char* none : {"\"email\"@example.com", "plainaddress", "#@%^%#$@#$@#.com",
                           "@example.com", "email.@example.com", "email@example",
                           "email@-example.com", "email@example..com", "あいうえお@example.com"})
    EXPECT_EQ(email(none), none);
}

TEST(PiiDatatrove, OnlyPublicAddresses) {
  const auto ip = [](const std::string& text) {
    std::string out = text;
    for (const TextSpan& span : scan_ipv4_datatrove(text))
      out = text.substr(0, span.begin) + "IP" + text.substr(span.end);
    return out;
  };
  for (const char* none :
       {"999.999.999.999.", "108.0.0.01", "0.1.2.3", "00.0000.00.00", "192.168.l.1",
        "912.456.123.123", "10.0.0.0", "10.255.255.255", "127.0.0.1", "172.16.0.0",
        "172.31.255.255", "192.168.0.0", "192.168.255.255"})
    EXPECT_EQ(ip(none), none);
  for (const char* whole : {"163.36.107.25", "114.35.103.54", "4.132.211.142"})
    EXPECT_EQ(ip(whole), "IP");
  EXPECT_EQ(ip(".3.3.3.0"), ".IP");
  PiiCounts counts{};
  EXPECT_EQ(replace_pii("a@b.cc c@d.ee f@g.hh 8.8.8.8", options_of(PiiPreset::kDatatrove), counts),
            "email@example.com firstname.lastname@example.org email@example.com 22.214.171.124");
}

TEST(PiiSextant, FindsAndLeaves) {
  const std::pair<const char*, const char*> cases[] = {
      {"mail john.doe+x@mail.example.co.uk, now", "mail |||EMAIL_ADDRESS|||, now"},
      {"icon@2x.png stays", "icon@2x.png stays"},
      {"a..b@c.org", "a..|||EMAIL_ADDRESS|||"},
      {"me@host and x@y.1", "me@host and x@y.1"},
      {"tel (212) 555-0143 or +44 20 7946 0958.", "tel |||PHONE_NUMBER||| or |||PHONE_NUMBER|||."},
      {"ISBN 978-316-1484 and order 212-555-0143", "ISBN 978-316-1484 and order 212-555-0143"},
      {"version 1.2.3.4.5 and 300.1.1.1", "version 1.2.3.4.5 and 300.1.1.1"},
      {"at 10.1.2.3:80 and 2001:db8::8a2e:370:7334.",
       "at |||IP_ADDRESS|||:80 and |||IP_ADDRESS|||."},
      {"12:30:45 std::vector a::b", "12:30:45 std::vector a::b"},
      {"GB82 WEST 1234 5698 7654 32 is mine", "|||IBAN||| is mine"},
      {"GB82 WEST 1234 5698 7654 33 is not", "GB82 WEST 1234 5698 7654 33 is not"},
      {"card 4111 1111 1111 1111!", "card |||CARD_NUMBER|||!"},
      {"card 4111 1111 1111 1112!", "card 4111 1111 1111 1112!"},
      {"key AKIAIOSFODNN7EXAMPLE.", "key |||SECRET_KEY|||."}};
  for (const auto& [text, want] : cases) {
    PiiCounts counts{};
    EXPECT_EQ(replace_pii(text, options_of(PiiPreset::kSextant), counts), want);
  }
}

TEST(PiiSextant, PseudonymsAreConsistentAndMaskingIsDone) {
  PiiOptions options = options_of(PiiPreset::kSextant);
  options.mode = PiiMode::kPseudonym;
  PiiCounts counts{};
  const std::string once = replace_pii("a@b.org, c@d.org, a@b.org 8.8.8.8", options, counts);
  EXPECT_EQ(counts[0], 3u);
  EXPECT_EQ(once.substr(0, 25), once.substr(once.rfind("user-"), 25));
  options.key = 1;
  EXPECT_NE(replace_pii("a@b.org", options, counts), once.substr(0, 25));
  options.mode = PiiMode::kMask;
  const std::string text = "x a@b.org (212) 555-0143 8.8.8.8 y";
  const std::string masked_once = replace_pii(text, options, counts);
  PiiCounts second{};
  EXPECT_EQ(replace_pii(masked_once, options, second), masked_once);
  EXPECT_EQ(second, PiiCounts{});
}

// Every scanner looks at a bounded number of bytes around an anchor: inputs on which patterns with
// back-tracking need time that grows with the square would not end here.
TEST(PiiHostile, AMegabyteOfEachShape) {
  const auto repeated = [](const std::string& piece) {
    std::string out;
    while (out.size() < 1'000'000) out += piece;
    return out;
  };
  const PiiOptions own = options_of(PiiPreset::kSextant);
  const PiiOptions peer = options_of(PiiPreset::kDatatrove);
  for (const char* piece :
       {"a+", ".a", "a@a-a-", "1", "1.1.1.1.", "-", ":", "@", "a:", "(1", "+1 "}) {
    const std::string text = repeated(piece);
    EXPECT_LE(find_pii(text, own).size(), text.size()) << piece;
    EXPECT_LE(find_pii(text, peer).size(), text.size()) << piece;
  }
}

}  // namespace
}  // namespace sx
