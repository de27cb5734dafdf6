// Python access to the opcode table, the decoder and single ALU instructions, for tests and the coverage report.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <iterator>
#include <stdexcept>

#include "core/inst.h"
#include "isa/alu.h"

namespace nb = nanobind;

namespace hipsynth {
namespace {

constexpr const char* kUnits[] = {"valu", "salu", "flow", "smem", "vmem", "lds"};
constexpr const char* kRates[] = {"full", "packed", "trans", "f64", "int64_mul", "mfma", "none"};
static_assert(std::size(kRates) == static_cast<size_t>(Rate::none) + 1);
constexpr const char* kCounts[] = {"other",   "add_f16",   "mul_f16", "fma_f16", "trans_f16", "add_f32",   "mul_f32",
                                   "fma_f32", "trans_f32", "add_f64", "mul_f64", "fma_f64",   "trans_f64", "int32",
                                   "int64",   "cvt",       "mfma",    "branch",  "message",   "scalar"};
constexpr const char* kKinds[] = {"none", "sgpr", "vgpr", "agpr", "constant", "special", "off"};
constexpr uint32_t kMaxRows = 1024;

nb::dict describe(const OpInfo& op) {
  nb::dict d;
  d["name"] = op.name;
  d["unit"] = kUnits[static_cast<int>(op.unit)];
  d["rate"] = kRates[static_cast<int>(op.rate)];
  d["count"] = kCounts[static_cast<int>(op.count)];
  nb::list archs;
  for (size_t i = 0; i < kArchs; ++i) {
    if (op.archs >> i & 1) archs.append(kArchTraits[i].name);
  }
  d["archs"] = archs;
  d["signature"] = op.signature;
  d["refused"] = op.refused;
  d["has_handler"] = op.handler != nullptr;
  d["mem_op"] = name_of(op.mem.op);
  d["mem_bytes"] = op.mem.elem_bytes * op.mem.count;
  return d;
}

nb::dict describe(const Operand& o) {
  nb::dict d;
  d["kind"] = kKinds[static_cast<int>(o.kind)];
  d["reg"] = o.reg;
  d["dwords"] = o.dwords;
  d["value"] = o.value;
  d["neg"] = o.neg;
  d["abs"] = o.abs;
  d["sext"] = o.sext;
  d["sel"] = o.sdwa_sel;
  return d;
}

// All fields except the operands, under the names of struct Inst.
nb::dict modifiers(const Inst& in) {
  nb::dict d;
  d["clamp"] = in.clamp;
  d["omod"] = in.omod;
  d["op_sel"] = in.op_sel;
  d["op_sel_hi"] = in.op_sel_hi;
  d["neg_lo"] = in.neg_lo;
  d["neg_hi"] = in.neg_hi;
  d["sdwa"] = in.sdwa;
  d["dst_sel"] = in.sdwa_dst_sel;
  d["dst_unused"] = in.sdwa_dst_unused;
  d["dpp"] = in.dpp.present
                 ? nb::cast(nb::make_tuple(in.dpp.ctrl, in.dpp.row_mask, in.dpp.bank_mask, in.dpp.bound_ctrl))
                 : nb::none();
  d["cbsz"] = in.cbsz;
  d["abid"] = in.abid;
  d["blgp"] = in.blgp;
  d["bitop3"] = in.bitop3;
  d["fi"] = in.fi;
  d["dmask"] = in.dmask;
  d["format"] = in.format;
  const std::pair<const char*, bool> flags[] = {
      {"glc", in.glc}, {"slc", in.slc}, {"scc", in.scc},     {"sc0", in.sc0},     {"sc1", in.sc1},     {"nt", in.nt},
      {"lds", in.lds}, {"gds", in.gds}, {"offen", in.offen}, {"idxen", in.idxen}, {"unorm", in.unorm}, {"da", in.da},
      {"a16", in.a16}, {"d16", in.d16}, {"tfe", in.tfe},     {"lwe", in.lwe}};
  nb::list set;
  for (const auto& [name, on] : flags) {
    if (on) set.append(name);
  }
  d["flags"] = set;
  return d;
}

nb::dict describe(const Inst& in, const std::string& text) {
  nb::dict d;
  d["text"] = text;
  d["mnemonic"] = in.op->name;
  d["unit"] = kUnits[static_cast<int>(in.op->unit)];
  d["count"] = kCounts[static_cast<int>(in.op->count)];
  d["rate"] = kRates[static_cast<int>(in.op->rate)];
  d["address"] = in.address;
  d["size"] = in.size;
  d["imm"] = in.imm;
  d["offset0"] = in.offset0;
  d["offset1"] = in.offset1;
  d["dst"] = describe(in.dst);
  d["sdst"] = describe(in.sdst);
  nb::list sources;
  for (const Operand& o : in.src) sources.append(describe(o));
  d["src"] = sources;
  d["modifiers"] = modifiers(in);
  return d;
}

nb::dict decode_py(const std::string& arch, const std::string& text) {
  const DecodeResult r = decode(parse_arch(arch), text);
  nb::list insts;
  for (size_t i = 0; i < r.code.insts.size(); ++i) insts.append(describe(r.code.insts[i], r.code.text[i]));
  nb::dict d;
  d["insts"] = insts;
  d["unsupported"] = r.unsupported;
  return d;
}

// Runs only the decoder and returns the number of instructions and of unsupported entries, for speed measurements.
nb::tuple decode_count(const std::string& arch, const std::string& text) {
  const DecodeResult r = decode(parse_arch(arch), text);
  return nb::make_tuple(r.code.insts.size(), r.unsupported.size());
}

void check_rows(const Wave& w, const Operand& o, uint32_t span, const std::string& text) {
  if (o.kind != OperandKind::vgpr && o.kind != OperandKind::agpr) return;
  const uint32_t first = o.reg + (o.kind == OperandKind::agpr ? w.accum_offset : 0u);
  if (first + std::max<uint32_t>(o.dwords, span) > w.rows) {
    throw std::invalid_argument("register out of range of the given vgprs: " + text);
  }
}

using Sgprs = nb::ndarray<const uint32_t, nb::shape<128>, nb::c_contig, nb::device::cpu>;
using Vgprs = nb::ndarray<const uint32_t, nb::shape<-1, 64>, nb::c_contig, nb::device::cpu>;

template <class T>
nb::ndarray<nb::numpy, uint32_t> to_numpy(const T* data, size_t rows, size_t cols) {
  auto* copy = new uint32_t[rows * cols];
  std::memcpy(copy, data, rows * cols * sizeof(uint32_t));
  nb::capsule owner(copy, [](void* p) noexcept { delete[] static_cast<uint32_t*>(p); });
  if (cols == 1) return nb::ndarray<nb::numpy, uint32_t>(copy, {rows}, owner);
  return nb::ndarray<nb::numpy, uint32_t>(copy, {rows, cols}, owner);
}

nb::dict alu_run(const std::string& arch, const std::string& text, Sgprs sgprs, Vgprs vgprs, bool scc, uint32_t mode,
                 uint32_t accum_offset, uint64_t repeat) {
  const DecodeResult r = decode(parse_arch(arch), text);
  if (!r.unsupported.empty()) throw std::invalid_argument("cannot decode: " + r.unsupported.front());
  const auto rows = static_cast<uint32_t>(vgprs.shape(0));
  if (rows == 0 || rows > kMaxRows) throw std::invalid_argument("vgprs must have 1 to 1024 rows");
  std::vector<uint32_t> file(static_cast<size_t>(rows) * kLanes + 16);
  auto* aligned = reinterpret_cast<uint32_t*>((reinterpret_cast<uintptr_t>(file.data()) + 63) & ~uintptr_t{63});
  std::memcpy(aligned, vgprs.data(), sizeof(uint32_t) * rows * kLanes);
  Wave w;
  std::memcpy(w.sgpr.data(), sgprs.data(), sizeof w.sgpr);
  w.vgpr = aligned;
  w.rows = rows;
  w.accum_offset = accum_offset;
  w.scc = scc;
  w.mode.set_bits(mode);
  w.mode.flush_products = traits(r.code.arch).flushes_products;
  w.mode.ocp_fp8 = traits(r.code.arch).ocp_fp8;
  for (size_t i = 0; i < r.code.insts.size(); ++i) {
    const Inst& in = r.code.insts[i];
    if (in.fn == nullptr) throw std::invalid_argument("not an ALU instruction: " + r.code.text[i]);
    check_rows(w, in.dst, 1, r.code.text[i]);
    for (const Operand& o : in.src) check_rows(w, o, 1, r.code.text[i]);
  }
  for (uint64_t k = 0; k < repeat; ++k) {
    for (const Inst& in : r.code.insts) execute_alu(w, in);
  }
  nb::dict d;
  d["sgprs"] = to_numpy(w.sgpr.data(), kScalarRegs, 1);
  d["vgprs"] = to_numpy(w.vgpr, rows, kLanes);
  d["scc"] = w.scc;
  return d;
}

}  // namespace

void bind_isa(nb::module_& m) {
  m.def(
      "opcodes",
      [] {
        nb::list all;
        for (const OpInfo& op : opcode_table()) all.append(describe(op));
        return all;
      },
      "Rows of the opcode table as dicts.");
  m.def("isa_level", &isa_level, "Handler set in use: x86-64-v3 or x86-64-v4.");
  m.def("decode", &decode_py, nb::arg("arch"), nb::arg("text"),
        "Decodes llvm-objdump text or assembler lines: {'insts': [dict], 'unsupported': [str]}.");
  m.def("decode_count", &decode_count, nb::arg("arch"), nb::arg("text"),
        "Number of decoded instructions and of unsupported entries.");
  m.def("alu_run", &alu_run, nb::arg("arch"), nb::arg("text"), nb::arg("sgprs"), nb::arg("vgprs"),
        nb::arg("scc") = false, nb::arg("mode") = 0x3f0, nb::arg("accum_offset") = 0, nb::arg("repeat") = 1,
        "Runs straight-line ALU instructions on a wave: {'sgprs', 'vgprs', 'scc'} afterwards. sgprs: uint32[128] with "
        "VCC at 106, M0 at 124, EXEC at 126; vgprs: uint32[rows, 64]; mode: the MODE register (rounding, denormals).");
}

}  // namespace hipsynth
