// A reader for the subset of MessagePack in AMDGPU metadata notes. Malformed input gives an error, never a crash.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hipsynth::msgpack {

struct Value {
  enum class Type : uint8_t { nil, boolean, integer, real, text, array, map } type = Type::nil;
  int64_t integer = 0;
  double real = 0;
  std::string text;
  std::vector<std::string> keys;  // map: keys[i] belongs to items[i]; entries with a non-string key are dropped
  std::vector<Value> items;       // array, or the values of a map

  const Value* get(const std::string& key) const;  // value of a map entry, or null
  uint64_t number(const std::string& key, uint64_t fallback) const;
  std::string string(const std::string& key) const;
};

// False if the bytes are not exactly one complete value (nesting deeper than 32 and more than 2^20 values are
// rejected).
bool parse(const uint8_t* data, uint64_t bytes, Value* out);

}  // namespace hipsynth::msgpack
