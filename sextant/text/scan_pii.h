#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace sx {

/// A place in a text, in bytes.
struct TextSpan {
  std::size_t begin = 0, end = 0;
  friend bool operator==(const TextSpan&, const TextSpan&) = default;
};
using TextSpans = std::vector<TextSpan>;

// Scanners for personal data. Each starts from anchors (an "@", a digit behind none, a colon),
// looks at a bounded number of bytes around one, and never goes back behind what it has found: the
// work is linear on every text. Spans come in order and do not overlap.

/// Addresses name@domain.tld: the name of letters, digits, !#$%&'*+/=?^_`{|}~- and single dots
/// inside (64 at most), the domain of two or more labels whose last has letters only, or [1.2.3.4].
/// Names of files (icon@2x.png) are none.
TextSpans scan_emails(std::string_view text);
/// What datatrove's pattern for e-mail addresses finds, leftmost and longest.
TextSpans scan_emails_datatrove(std::string_view text);

/// Numbers of the North American plan written in groups, and +country numbers of 7 to 15 digits;
/// not inside longer numbers or addresses, nor behind "isbn", "doi", "issn" or "order".
TextSpans scan_phones(std::string_view text);
/// CS336: 3 + 3 + 4 digits, brackets around the first three and one space, dot or dash between the
/// groups being optional; no digit on either side.
TextSpans scan_phones_cs336(std::string_view text);

/// IPv4 with four numbers up to 255, no part of a longer dotted number.
TextSpans scan_ipv4(std::string_view text);
/// What datatrove's pattern for IP addresses finds and its check for public addresses lets through.
TextSpans scan_ipv4_datatrove(std::string_view text);
/// IPv6 in all forms of RFC 4291 that hold two groups and a digit, with embedded IPv4.
TextSpans scan_ipv6(std::string_view text);

/// Account numbers whose check digits hold (ISO 13616, modulo 97).
TextSpans scan_ibans(std::string_view text);
/// Card numbers of 13 to 19 digits, in groups or not, with a known prefix and Luhn's check digit.
TextSpans scan_cards(std::string_view text);
/// Keys of cloud services and code hosts, JSON web tokens, private keys in PEM form.
TextSpans scan_keys(std::string_view text);

}  // namespace sx
