// Device printf of `-mprintf-kind=buffered`: records in a buffer, format strings in the code object's metadata.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>

#include "core/launch.h"

namespace hipsynth {
namespace {

// Buffer: { uint32 used, uint32 size, records }. Record: a control word (bit 0 stderr, bit 1 constant format string,
// bits 2.. size of the record in bytes), then the format's 64-bit hash or its text, then the arguments of 8 bytes each;
// strings are inline, padded to 8 bytes (LLVM, AMDGPUEmitPrintf).
constexpr uint32_t kHeader = 8;
constexpr size_t kMaxText = 64u << 20;  // of one dispatch

struct Cursor {
  const uint8_t* at;
  const uint8_t* end;
  bool ok = true;

  uint64_t word() {
    uint64_t v = 0;
    if (end - at < 8) {
      ok = false;
      return 0;
    }
    std::memcpy(&v, at, 8);
    at += 8;
    return v;
  }
  std::string text() {
    const size_t room = static_cast<size_t>(end - at);
    const size_t n = strnlen(reinterpret_cast<const char*>(at), room);
    if (n == room) {
      ok = false;
      return {};
    }
    std::string s(reinterpret_cast<const char*>(at), n);
    at += std::min(room, (n + 8) / 8 * 8);
    return s;
  }
};

// Formats come from untrusted device memory, so only plain conversions reach the host's printf: flags, a width and a
// precision of at most three digits each, length letters, and a kind that writes nothing to memory.
bool is_safe(const std::string& spec) {
  if (spec.find('\0') != std::string::npos) return false;
  size_t i = 1;
  const auto digits = [&] {
    const size_t start = i;
    while (i < spec.size() && spec[i] >= '0' && spec[i] <= '9') ++i;
    return i - start <= 3;
  };
  while (i < spec.size() && std::strchr("-+ #0", spec[i])) ++i;
  if (!digits()) return false;
  if (i < spec.size() && spec[i] == '.') {
    ++i;
    if (!digits()) return false;
  }
  while (i < spec.size() && std::strchr("hljztL", spec[i])) ++i;
  return i + 1 == spec.size() && std::strchr("diouxXfFeEgGaAcsp", spec[i]) != nullptr;
}

// Appends what the host's printf makes of one argument, or nothing if it fails; text longer than the buffer is cut.
template <size_t kRoom = 512, typename Value>
void append_formatted(const std::string& spec, Value value, std::string* out) {
  char text[kRoom];
  if (std::snprintf(text, sizeof text, spec.c_str(), value) >= 0) *out += text;
}

// Formats one conversion; "*" has already been replaced by numbers.
void append_conversion(const std::string& spec, Cursor* args, std::string* out) {
  const char kind = spec.back();
  if (!is_safe(spec)) {
    args->word();
    *out += "[unsupported conversion]";
    return;
  }
  std::string plain;
  for (const char c : spec) {
    if (std::strchr("hljztL", c) == nullptr) plain += c;
  }
  if (kind == 's') return append_formatted<4096>(plain, args->text().c_str(), out);
  const uint64_t word = args->word();
  if (std::strchr("fFeEgGaA", kind)) {
    double v;
    std::memcpy(&v, &word, 8);
    append_formatted(plain, v, out);
  } else if (kind == 'c') {
    append_formatted(plain, static_cast<int>(word), out);
  } else if (kind == 'p') {
    append_formatted(plain, reinterpret_cast<void*>(word), out);
  } else {
    const bool wide = spec.find_first_of("ljzt") != std::string::npos;
    const bool is_signed = kind == 'd' || kind == 'i';
    plain.insert(plain.size() - 1, "ll");
    const auto shorts = std::count(spec.begin(), spec.end(), 'h');
    const int dropped_bits = wide ? 0 : shorts == 0 ? 32 : shorts == 1 ? 48 : 56;
    const uint64_t high = word << dropped_bits;
    const uint64_t v =
        is_signed ? static_cast<uint64_t>(static_cast<int64_t>(high) >> dropped_bits) : high >> dropped_bits;
    append_formatted(plain, static_cast<unsigned long long>(v), out);
  }
}

std::string format(const std::string& f, Cursor args) {
  std::string out;
  for (size_t i = 0; i < f.size(); ++i) {
    if (f[i] != '%') {
      out += f[i];
      continue;
    }
    if (i + 1 < f.size() && f[i + 1] == '%') {
      out += '%';
      ++i;
      continue;
    }
    std::string spec = "%";
    for (++i; i < f.size(); ++i) {
      if (f[i] == '*')
        spec += std::to_string(static_cast<int32_t>(args.word()));
      else
        spec += f[i];
      if (std::strchr("diouxXfFeEgGaAcspn", f[i])) break;
    }
    if (i >= f.size()) return out + spec;
    append_conversion(spec, &args, &out);
    if (!args.ok) return out + "[truncated printf record]\n";
  }
  return out;
}

// Parses "0:0:<hash in hex>,<format>" for each constant format string.
std::map<uint64_t, std::string> formats_by_hash(const std::vector<std::string>& formats) {
  std::map<uint64_t, std::string> table;
  for (const std::string& f : formats) {
    const size_t comma = f.find(',');
    const size_t colon = comma == std::string::npos ? comma : f.rfind(':', comma);
    if (colon == std::string::npos) continue;
    table[std::strtoull(f.substr(colon + 1, comma - colon - 1).c_str(), nullptr, 16)] = f.substr(comma + 1);
  }
  return table;
}

}  // namespace

std::string format_printf(const uint8_t* begin, const uint8_t* end) {
  Cursor args{begin, end};
  const std::string f = args.text();
  return format(f, args);
}

void reset_printf(uint8_t* buffer, uint32_t bytes) {
  const uint32_t header[2] = {0, bytes - kHeader};
  std::memcpy(buffer, header, sizeof header);
}

PrintfText read_printf(const uint8_t* buffer, uint32_t bytes_of_buffer, const std::vector<std::string>& formats) {
  uint32_t header[2];
  std::memcpy(header, buffer, sizeof header);
  if (header[0] == 0) return {};
  const auto table = formats_by_hash(formats);
  const uint8_t* at = buffer + kHeader;
  const uint8_t* end = at + std::min({header[0], header[1], bytes_of_buffer - kHeader});  // the header is untrusted
  PrintfText text;
  uint32_t longest = 0;
  while (end - at >= 4) {
    uint32_t control;
    std::memcpy(&control, at, 4);
    const uint32_t bytes = control >> 2;
    std::string& out = control & 1 ? text.errors : text.output;
    if (bytes < 4 || bytes > static_cast<uint64_t>(end - at) || out.size() > kMaxText) {
      text.output += "[unreadable printf record]\n";
      return text;
    }
    Cursor args{at + 4, at + bytes};
    if (control & 2) {
      const auto it = table.find(args.word());
      out += it == table.end() ? "[printf with an unknown format]\n" : format(it->second, args);
    } else {
      out += format_printf(at + 4, at + bytes);
    }
    longest = std::max(longest, bytes);
    at += bytes;
  }
  if (header[1] - std::min(header[0], header[1]) < longest)  // the device library drops what has no room
    text.errors += "hipsynth: warning: a kernel's printf buffer is full (" + std::to_string(bytes_of_buffer >> 20) +
                   " MiB): what it printed after that, if anything, is lost\n";
  return text;
}

}  // namespace hipsynth
