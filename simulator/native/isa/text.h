// Text helpers of the decoder.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace hipsynth::text {

inline bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }
inline bool is_digit(char c) { return c >= '0' && c <= '9'; }

inline std::string_view trim(std::string_view s) {
  while (!s.empty() && is_space(s.front())) s.remove_prefix(1);
  while (!s.empty() && is_space(s.back())) s.remove_suffix(1);
  return s;
}

inline bool eat(std::string_view& s, std::string_view prefix) {
  if (!s.starts_with(prefix)) return false;
  s.remove_prefix(prefix.size());
  return true;
}

// Decimal or 0x-hexadecimal integer that makes up all of `s`.
inline std::optional<int64_t> integer(std::string_view s) {
  const bool negative = eat(s, "-");
  const bool hex = eat(s, "0x");
  uint64_t v = 0;
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), v, hex ? 16 : 10);
  if (s.empty() || error != std::errc{} || end != s.data() + s.size()) return std::nullopt;
  return static_cast<int64_t>(negative ? 0 - v : v);
}

// Removes and returns the text up to `separator` outside brackets, parentheses and bars; drops the separator.
inline std::string_view take(std::string_view& s, char separator) {
  int depth = 0;
  for (size_t i = 0; i < s.size(); ++i) {
    const char c = s[i];
    if (c == '[' || c == '(') ++depth;
    if (c == ']' || c == ')') --depth;
    if (depth <= 0 && c == separator) {
      const std::string_view head = s.substr(0, i);
      s.remove_prefix(i + 1);
      return head;
    }
  }
  const std::string_view head = s;
  s = {};
  return head;
}

}  // namespace hipsynth::text
