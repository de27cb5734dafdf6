#include "core/msgpack.h"

#include <cstring>

namespace hipsynth::msgpack {
namespace {

constexpr int kMaxDepth = 32;
constexpr uint64_t kMaxValues = 1u << 20;  // each takes some hundred times the memory of its one byte or more

struct Reader {
  const uint8_t* at;
  const uint8_t* end;
  uint64_t values_left = kMaxValues;

  bool take(uint64_t n, uint64_t* out) {
    if (static_cast<uint64_t>(end - at) < n) return false;
    uint64_t v = 0;
    for (uint64_t i = 0; i < n; ++i) v = v << 8 | at[i];
    at += n;
    *out = v;
    return true;
  }

  bool text(uint64_t n, Value* out) {
    if (static_cast<uint64_t>(end - at) < n) return false;
    out->type = Value::Type::text;
    out->text.assign(reinterpret_cast<const char*>(at), n);
    at += n;
    return true;
  }

  bool sized_text(uint64_t size_bytes, Value* out) {
    uint64_t n;
    return take(size_bytes, &n) && text(n, out);
  }

  bool integer(uint64_t size_bytes, bool is_signed, Value* out) {
    uint64_t v;
    if (!take(size_bytes, &v)) return false;
    const int unused = 64 - static_cast<int>(8 * size_bytes);
    out->type = Value::Type::integer;
    out->integer = is_signed ? static_cast<int64_t>(v << unused) >> unused : static_cast<int64_t>(v);
    return true;
  }

  bool real(uint64_t size_bytes, Value* out) {
    uint64_t v;
    if (!take(size_bytes, &v)) return false;
    out->type = Value::Type::real;
    if (size_bytes == 4) {
      const auto bits = static_cast<uint32_t>(v);
      float f;
      std::memcpy(&f, &bits, 4);
      out->real = f;
    } else {
      std::memcpy(&out->real, &v, 8);
    }
    return true;
  }

  bool array(uint64_t n, int depth, Value* out) {
    if (n > static_cast<uint64_t>(end - at)) return false;  // each item takes at least one byte
    out->type = Value::Type::array;
    for (uint64_t i = 0; i < n; ++i) {
      if (!value(depth + 1, &out->items.emplace_back())) return false;
    }
    return true;
  }

  bool map(uint64_t n, int depth, Value* out) {
    if (2 * n > static_cast<uint64_t>(end - at)) return false;
    out->type = Value::Type::map;
    for (uint64_t i = 0; i < n; ++i) {
      Value key, item;
      if (!value(depth + 1, &key) || !value(depth + 1, &item)) return false;
      if (key.type != Value::Type::text) continue;
      out->keys.push_back(std::move(key.text));
      out->items.push_back(std::move(item));
    }
    return true;
  }

  bool sized_container(uint64_t size_bytes, bool is_map, int depth, Value* out) {
    uint64_t n;
    return take(size_bytes, &n) && (is_map ? map(n, depth, out) : array(n, depth, out));
  }

  bool fixed(uint8_t tag, int depth, Value* out) {
    if (tag < 0x80 || tag >= 0xe0) {
      out->type = Value::Type::integer;
      out->integer = static_cast<int8_t>(tag);
      return true;
    }
    if (tag < 0x90) return map(tag & 0xf, depth, out);
    if (tag < 0xa0) return array(tag & 0xf, depth, out);
    return text(tag & 0x1f, out);
  }

  bool value(int depth, Value* out) {
    if (depth > kMaxDepth || at == end || values_left-- == 0) return false;
    const uint8_t tag = *at++;
    if (tag < 0xc0 || tag >= 0xe0) return fixed(tag, depth, out);
    switch (tag) {
      case 0xc0:
        return true;
      case 0xc2:
      case 0xc3:
        out->type = Value::Type::boolean;
        out->integer = tag & 1;
        return true;
      case 0xc4:
      case 0xd9:
        return sized_text(1, out);
      case 0xc5:
      case 0xda:
        return sized_text(2, out);
      case 0xc6:
      case 0xdb:
        return sized_text(4, out);
      case 0xca:
        return real(4, out);
      case 0xcb:
        return real(8, out);
      case 0xcc:
      case 0xcd:
      case 0xce:
      case 0xcf:
        return integer(1ull << (tag - 0xcc), false, out);
      case 0xd0:
      case 0xd1:
      case 0xd2:
      case 0xd3:
        return integer(1ull << (tag - 0xd0), true, out);
      case 0xdc:
        return sized_container(2, false, depth, out);
      case 0xdd:
        return sized_container(4, false, depth, out);
      case 0xde:
        return sized_container(2, true, depth, out);
      case 0xdf:
        return sized_container(4, true, depth, out);
      default:
        return false;  // extension types do not occur in AMDGPU metadata
    }
  }
};

}  // namespace

const Value* Value::get(const std::string& key) const {
  for (size_t i = 0; i < keys.size(); ++i) {
    if (keys[i] == key) return &items[i];
  }
  return nullptr;
}

uint64_t Value::number(const std::string& key, uint64_t fallback) const {
  const Value* v = get(key);
  return v && (v->type == Type::integer || v->type == Type::boolean) ? static_cast<uint64_t>(v->integer) : fallback;
}

std::string Value::string(const std::string& key) const {
  const Value* v = get(key);
  return v && v->type == Type::text ? v->text : std::string();
}

bool parse(const uint8_t* data, uint64_t bytes, Value* out) {
  Reader reader{data, data + bytes};
  return reader.value(0, out) && reader.at == reader.end;
}

}  // namespace hipsynth::msgpack
