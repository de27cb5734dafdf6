// A reader for the subset of MessagePack that AMDGPU metadata notes use. Garbage gives an error, never a crash.
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
  std::vector<std::string> keys;  // map: key i belongs to items[i]; entries whose key is not text are dropped
  std::vector<Value> items;       // array, or the values of a map

  const Value* get(const std::string& key) const;  // map entry or null
  uint64_t number(const std::string& key, uint64_t fallback) const;
  std::string string(const std::string& key) const;
};

// False when the bytes are not one complete value (nesting deeper than 32 counts as garbage).
bool parse(const uint8_t* data, uint64_t bytes, Value* out);

}  // namespace hipsynth::msgpack
