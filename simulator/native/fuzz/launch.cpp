// Fuzzes launch parameters and a kernel in assembler text. The mutator uses the opcode table to insert and change whole
// instructions with random registers and constants, so that every handler sees hostile operands.
#include <algorithm>
#include <cstring>
#include <random>

#include "fuzz/common.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

using namespace hipsynth;

// Header of every input; the assembler text follows.
struct Parameters {
  uint8_t arch, vgprs, accum, flags;
  uint16_t lds, scratch, mode, dynamic_lds;
  uint32_t grid[3], block[3];
};
constexpr size_t kHead = sizeof(Parameters);
constexpr uint64_t kBuffer = 1 << 16;

std::string pick(std::mt19937& rng, std::initializer_list<const char*> words) {
  return *(words.begin() + rng() % words.size());
}

std::string registers(std::mt19937& rng, char file, uint32_t dwords) {
  const uint32_t first = rng() % 4 ? rng() % 24 : rng() % 256;
  if (dwords == 1) return file + std::to_string(first);
  return std::string(1, file) + "[" + std::to_string(first) + ":" + std::to_string(first + dwords - 1) + "]";
}

uint32_t width_of(std::mt19937& rng, std::string_view type) {
  const size_t digits = type.find_first_of("0123456789");
  if (type.starts_with("mat") || type.starts_with("acc") || type.starts_with("wide"))
    return static_cast<uint32_t>(std::atoi(std::string(type.substr(digits)).c_str()));
  if (type == "b128") return 4;
  if (type.ends_with("64") || type == "mask" || type == "pk_f32" || type == "pk_b32") return 2;
  static constexpr uint32_t kWidths[] = {1, 1, 1, 1, 2, 2, 4, 3, 8, 16};
  return type == "b32" || type.ends_with("addr") ? kWidths[rng() % std::size(kWidths)] : 1;
}

std::string operand(std::mt19937& rng, std::string_view type) {
  if (rng() % 8 == 0)
    return pick(rng, {"0", "-1", "1.0", "0x7fffffff", "vcc", "exec", "m0", "off", "s[0:1]", "ttmp15", "flat_scratch",
                      "src_shared_base", "-|v1|", "sext(v2)", "0xffffffffffffffff", "a3", "s[100:101]", "v255"});
  static constexpr char kFiles[] = {'v', 'v', 'v', 's', 's', 'a'};
  return registers(rng, kFiles[rng() % sizeof kFiles], width_of(rng, type));
}

std::string instruction(std::mt19937& rng) {
  const auto& table = opcode_table();
  const OpInfo& op = table[rng() % table.size()];
  std::string line = op.name;
  if (op.unit == Unit::valu) line += pick(rng, {"", "", "", "_e32", "_e64", "_sdwa", "_dpp"});
  std::string_view rest = op.signature;
  for (const char* separator = " "; !rest.empty();) {
    const std::string_view token = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(rest.size(), token.size() + 1));
    if (token.find('=') != token.npos || (token.find('?') != token.npos && rng() % 2)) continue;
    const size_t colon = token.find(':');
    line += separator;
    separator = ", ";
    line +=
        colon == token.npos ? std::to_string(static_cast<int>(rng() % 64) - 32) : operand(rng, token.substr(colon + 1));
  }
  while (rng() % 3 == 0)
    line += pick(rng, {" offset:8",
                       " offset:-8",
                       " offset:65535",
                       " offset0:255 offset1:255",
                       " glc",
                       " sc0",
                       " lds",
                       " clamp",
                       " mul:4",
                       " offen",
                       " idxen",
                       " row_shr:15 bound_ctrl:0",
                       " quad_perm:[3,2,1,0]",
                       " src0_sel:BYTE_3",
                       " dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE",
                       " op_sel:[1,1,1,1]",
                       " gds",
                       " op_sel_hi:[0,1]",
                       " neg_lo:[1,1,1]",
                       " cbsz:7",
                       " abid:15",
                       " blgp:7",
                       " dmask:0xf",
                       " unorm"});
  return line + "\n";
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  std::mt19937 rng(seed);
  if (size < kHead || rng() % 4 == 0) return LLVMFuzzerMutate(data, size, max_size);
  if (rng() % 6 == 0) {
    LLVMFuzzerMutate(data, kHead, kHead);
    return size;
  }
  std::string text(reinterpret_cast<char*>(data) + kHead, size - kHead);
  const size_t at = text.empty() ? 0 : text.rfind('\n', rng() % text.size());
  const size_t line = at == text.npos ? 0 : at + 1;
  if (rng() % 3 == 0 && line < text.size()) text.erase(line, text.find('\n', line) - line + 1);
  text.insert(std::min(line, text.size()), instruction(rng));
  const size_t n = std::min(text.size(), max_size - kHead);
  std::memcpy(data + kHead, text.data(), n);
  return kHead + n;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < kHead) return 0;
  Parameters p;
  std::memcpy(&p, data, kHead);
  Device& device = fuzz::device(fuzz::choose_arch(p.arch));
  KernelInfo k;
  k.symbol = k.name = "kernel";
  k.vgprs = 8 * ((p.vgprs & 63) + 1);
  k.accum_offset = 4 * ((p.accum & 63) + 1);
  k.sgprs = 104;
  k.lds_bytes = p.lds;
  k.scratch_bytes = p.scratch;
  k.kernarg_bytes = 64;
  k.dynamic_stack = p.flags & 1;
  k.rsrc1 = (p.vgprs & 63) | (p.mode & 0xff) << 12 | (p.mode >> 8 & 1) << 21 | (p.mode >> 9 & 1) << 23;
  k.rsrc2 = 5 << 1 | 7 << 7 | 2 << 11 | (p.flags >> 1 & 1);
  k.code_properties = 8 | (p.flags & 4 ? 1 : 0) | (p.flags & 8 ? 2 : 0) | (p.flags & 16 ? 32 : 0);
  k.kernarg_preload = p.flags & 32 ? 8 : 0;
  const auto buffer = reinterpret_cast<uint64_t>(device.memory().allocate(kBuffer, Memory::Kind::device));
  fuzz::attempt([&] {
    const std::string text(reinterpret_cast<const char*>(data) + kHead, size - kHead);
    const std::unique_ptr<Module> module = Module::from_text(device.arch(), device.memory(), text, k);
    Launch launch;
    launch.module = module.get();
    launch.kernel = module->kernel("kernel");
    launch.grid = {p.grid[0], p.grid[1], p.grid[2]};
    launch.block = {p.block[0], p.block[1], p.block[2]};
    launch.dynamic_lds = p.dynamic_lds;
    const uint64_t args[4] = {buffer, buffer + kBuffer / 2, kBuffer, ~0ull};
    launch.args.resize(sizeof args);
    std::memcpy(launch.args.data(), args, sizeof args);
    device.launch(launch);
  });
  device.memory().release(reinterpret_cast<void*>(buffer));
  return 0;
}
