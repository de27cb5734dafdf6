#include "core/counters.h"

#include <cstring>

namespace hipsynth {
namespace {

constexpr const char* kValuNames[] = {"",
                                      "SQ_INSTS_VALU_ADD_F16",
                                      "SQ_INSTS_VALU_MUL_F16",
                                      "SQ_INSTS_VALU_FMA_F16",
                                      "SQ_INSTS_VALU_TRANS_F16",
                                      "SQ_INSTS_VALU_ADD_F32",
                                      "SQ_INSTS_VALU_MUL_F32",
                                      "SQ_INSTS_VALU_FMA_F32",
                                      "SQ_INSTS_VALU_TRANS_F32",
                                      "SQ_INSTS_VALU_ADD_F64",
                                      "SQ_INSTS_VALU_MUL_F64",
                                      "SQ_INSTS_VALU_FMA_F64",
                                      "SQ_INSTS_VALU_TRANS_F64",
                                      "SQ_INSTS_VALU_INT32",
                                      "SQ_INSTS_VALU_INT64",
                                      "SQ_INSTS_VALU_CVT",
                                      "SQ_INSTS_MFMA"};

// Counters that exist even when nothing bumps them, so that every dispatch has the same set of names.
constexpr const char* kAlways[] = {"SQ_INSTS_VMEM_RD",
                                   "SQ_INSTS_VMEM_WR",
                                   "SQ_INSTS_VMEM",
                                   "SQ_INSTS_FLAT",
                                   "SQ_INSTS_LDS",
                                   "SQ_INSTS_GDS",
                                   "SQ_INSTS_BRANCH",
                                   "SQ_INSTS_SENDMSG",
                                   "SQ_INSTS_VALU",
                                   "SQ_ACTIVE_INST_VALU",
                                   "SQ_THREAD_CYCLES_VALU",
                                   "EXACT_FLOPS",
                                   "EXACT_LANES",
                                   "EXACT_LANE_SLOTS",
                                   "EXACT_READ_BYTES",
                                   "EXACT_WRITE_BYTES",
                                   "EXACT_ATOMIC_BYTES",
                                   "EXACT_LDS_BYTES",
                                   "SQ_INSTS_SALU",
                                   "SQ_INSTS_SMEM",
                                   "SQC_DCACHE_REQ_READ_1",
                                   "SQC_DCACHE_REQ_READ_2",
                                   "SQC_DCACHE_REQ_READ_4",
                                   "SQC_DCACHE_REQ_READ_8",
                                   "SQC_DCACHE_REQ_READ_16",
                                   "TA_FLAT_WAVEFRONTS",
                                   "TA_FLAT_READ_WAVEFRONTS",
                                   "TA_FLAT_WRITE_WAVEFRONTS",
                                   "TA_FLAT_ATOMIC_WAVEFRONTS",
                                   "TA_BUFFER_WAVEFRONTS",
                                   "TA_BUFFER_READ_WAVEFRONTS",
                                   "TA_BUFFER_WRITE_WAVEFRONTS",
                                   "TA_BUFFER_ATOMIC_WAVEFRONTS",
                                   "TA_TOTAL_WAVEFRONTS"};
constexpr const char* kMfmaTypes[] = {"F16", "BF16", "F32", "F64", "I8"};

// Counters that are sums of others in every one of 99 recorded dispatches (a copy on three devices, mixbench and a fill
// on one; test data of ROCm/rocprofiler-compute).
struct Sum {
  const char* name;
  std::vector<const char*> terms;
  double times = 1;
};
const std::vector<Sum>& sums() {
  static const std::vector<Sum> table = {
      {"SQ_ACTIVE_INST_SCA", {"SQ_INSTS_SALU", "SQ_INSTS_SMEM"}},
      {"SQ_ACTIVE_INST_FLAT", {"SQ_INSTS_FLAT"}},
      {"SQ_ACTIVE_INST_VMEM", {"TA_BUFFER_WAVEFRONTS"}},
      {"SQ_ACTIVE_INST_LDS", {"SQ_INSTS_LDS"}},
      {"SQ_ACTIVE_INST_MISC", {"SQ_INSTS_BRANCH", "SQ_INSTS_SENDMSG"}},
      {"SQ_ACTIVE_INST_ANY",
       {"SQ_INSTS_VALU", "SQ_INSTS_SALU", "SQ_INSTS_SMEM", "SQ_INSTS_VMEM", "SQ_INSTS_LDS", "SQ_INSTS_BRANCH",
        "SQ_INSTS_SENDMSG"}},
      {"SQ_INST_CYCLES_SALU", {"SQ_INSTS_SALU"}},
      {"SQ_INST_CYCLES_SMEM", {"SQ_INSTS_SMEM"}},
      {"SQ_INST_CYCLES_VMEM_RD", {"SQ_INSTS_VMEM_RD"}},
      {"SQ_INST_CYCLES_VMEM_WR", {"SQ_INSTS_VMEM_WR"}},
      {"SQ_INSTS_SMEM_NORM", {"SQ_INSTS_SMEM"}, 2},
      {"TD_LOAD_WAVEFRONT", {"SQ_INSTS_VMEM"}},
      {"TD_STORE_WAVEFRONT", {"SQ_INSTS_VMEM_WR"}},
      {"TCP_TA_TCP_STATE_READ", {"SQ_INSTS_VMEM"}},
      {"TCP_VOLATILE", {"TCP_TOTAL_ACCESSES"}},
      {"TCP_UTCL1_REQUEST", {"TCP_TOTAL_CACHE_ACCESSES"}},
      {"TCP_TCC_RW_READ_REQ", {"TCP_TCC_READ_REQ"}},
      {"TCP_TCC_RW_WRITE_REQ", {"TCP_TCC_WRITE_REQ"}},
      {"TCP_TCC_RW_ATOMIC_REQ", {"TCP_TCC_ATOMIC_WITH_RET_REQ", "TCP_TCC_ATOMIC_WITHOUT_RET_REQ"}},
  };
  return table;
}

using Counters = std::map<std::string, double>;

void count_valu(const OpInfo& op, double n, Counters* out) {
  Counters& k = *out;
  k["SQ_INSTS_VALU"] += n;
  if (op.count != Count::other) k[kValuNames[static_cast<size_t>(op.count)]] += n;
  if (op.rate == Rate::mfma && op.mfma_type && *op.mfma_type) {
    k[std::string("SQ_INSTS_VALU_MFMA_") + op.mfma_type] += n;
    k[std::string("SQ_INSTS_VALU_MFMA_MOPS_") + op.mfma_type] += n * op.mfma_mops;
  }
}

// Recorded: one quad-cycle of SQ_ACTIVE_INST_VALU per instruction whatever its rate (f32, f64, int), and 64
// work-item cycles of it when no lane is off. Matrix instructions work on all lanes.
void count_lanes(const OpInfo& op, double n, double lanes, Counters* out) {
  Counters& k = *out;
  const bool matrix = op.rate == Rate::mfma;
  k["SQ_ACTIVE_INST_VALU"] += n;
  k["SQ_THREAD_CYCLES_VALU"] += matrix ? n * kLanes : lanes;
  if (!matrix) k["EXACT_FLOPS"] += lanes * op.flops;
  if (matrix && op.mfma_type && std::strcmp(op.mfma_type, "I8") != 0) k["EXACT_FLOPS"] += n * op.mfma_mops * 512;
}

// Bytes that active lanes ask for, whatever the memory system makes of them. A generic access counts as memory wherever
// it lands; cross-lane operations and cache control move none.
void count_bytes(const OpInfo& op, double lanes, Counters* out) {
  const double bytes = lanes * op.mem.elem_bytes * op.mem.count;
  const bool data = op.mem.kind == MemKind::load || op.mem.kind == MemKind::store || op.mem.kind == MemKind::atomic;
  if (!data) return;
  const char* name = op.mem.space == MemSpace::lds   ? "EXACT_LDS_BYTES"
                     : op.mem.kind == MemKind::load  ? "EXACT_READ_BYTES"
                     : op.mem.kind == MemKind::store ? "EXACT_WRITE_BYTES"
                                                     : "EXACT_ATOMIC_BYTES";
  (*out)[name] += bytes;
}

void count_vector(const OpInfo& op, double n, double lanes, Counters* out) {
  (*out)["EXACT_LANES"] += op.rate == Rate::mfma ? n * kLanes : lanes;
  (*out)["EXACT_LANE_SLOTS"] += n * kLanes;
  count_bytes(op, lanes, out);
}

void count_vmem(const OpInfo& op, double n, Counters* out) {
  Counters& k = *out;
  const MemDesc& m = op.mem;
  if (m.kind == MemKind::cache) return;
  const bool load = m.kind != MemKind::store && m.kind != MemKind::atomic;
  k["SQ_INSTS_VMEM"] += n;
  k[load ? "SQ_INSTS_VMEM_RD" : "SQ_INSTS_VMEM_WR"] += n;
  k["TA_TOTAL_WAVEFRONTS"] += n;
  if (m.space == MemSpace::image && m.op == MemOp::none) return;  // neither FLAT nor a buffer
  const bool buffer = m.space == MemSpace::buffer || m.space == MemSpace::image;
  const std::string group = buffer ? "TA_BUFFER_" : "TA_FLAT_";
  if (!buffer) k["SQ_INSTS_FLAT"] += n;
  k[group + "WAVEFRONTS"] += n;
  k[group + (load ? "READ_" : m.kind == MemKind::store ? "WRITE_" : "ATOMIC_") + "WAVEFRONTS"] += n;
}

// Scalar loads by their width in dwords.
void count_smem(const OpInfo& op, double n, Counters* out) {
  (*out)["SQ_INSTS_SMEM"] += n;
  if (op.mem.kind != MemKind::load) return;
  const uint32_t dwords = uint32_t{op.mem.elem_bytes} * op.mem.count / 4;
  (*out)["SQC_DCACHE_REQ_READ_" + std::to_string(dwords)] += n;
}

uint64_t* issued_by(Unit unit, IssueCounts* issue) {
  switch (unit) {
    case Unit::salu:
      return &issue->salu;
    case Unit::flow:
      return &issue->flow;
    case Unit::smem:
      return &issue->smem;
    case Unit::vmem:
      return &issue->vmem;
    case Unit::lds:
      return &issue->lds;
    case Unit::valu:
      break;
  }
  return nullptr;
}

void count_flow(const OpInfo& op, double n, Counters* out) {
  if (op.count == Count::branch) (*out)["SQ_INSTS_BRANCH"] += n;
  if (op.count == Count::message) (*out)["SQ_INSTS_SENDMSG"] += n;  // recorded: one per wave without messages
  if (op.count == Count::scalar) (*out)["SQ_INSTS_SALU"] += n;
}

}  // namespace

IssueCounts issue_counts(const Context& c, const std::vector<Executed>& executions) {
  IssueCounts issue;
  for (size_t i = 0; i + 1 < executions.size(); ++i) {
    const uint64_t times = executions[i].times;
    if (times == 0) continue;
    const OpInfo& op = *c.program->steps[i].inst->op;
    issue.total += times;
    if (uint64_t* unit = issued_by(op.unit, &issue)) {
      *unit += times;
    } else if (op.rate != Rate::mfma) {
      issue.valu_by_rate[static_cast<size_t>(op.rate)] += times;
    } else {
      issue.mfma_cycles += times * (op.mfma_cycles[static_cast<size_t>(c.arch)]);
    }
  }
  return issue;
}

void count_instructions(const Context& c, const std::vector<Executed>& executions, Counters* out) {
  Counters& k = *out;
  uint64_t total = 0;
  for (const char* name : kAlways) k[name] = 0;
  for (size_t i = 1; i < std::size(kValuNames); ++i) k[kValuNames[i]] = 0;
  for (const char* type : kMfmaTypes) {
    k[std::string("SQ_INSTS_VALU_MFMA_") + type] = 0;
    k[std::string("SQ_INSTS_VALU_MFMA_MOPS_") + type] = 0;
  }
  for (size_t i = 0; i + 1 < executions.size(); ++i) {
    const auto [times, lanes] = executions[i];
    if (times == 0) continue;
    const OpInfo& op = *c.program->steps[i].inst->op;
    const auto n = static_cast<double>(times);
    total += times;
    const bool vector = op.unit == Unit::valu || op.unit == Unit::vmem || op.unit == Unit::lds;
    if (vector) count_vector(op, n, static_cast<double>(lanes), out);
    switch (op.unit) {
      case Unit::valu:
        count_valu(op, n, out);
        count_lanes(op, n, static_cast<double>(lanes), out);
        break;
      case Unit::salu:
        k["SQ_INSTS_SALU"] += n;
        break;
      case Unit::flow:
        count_flow(op, n, out);
        break;
      case Unit::smem:
        count_smem(op, n, out);
        break;
      case Unit::vmem:
        count_vmem(op, n, out);
        break;
      case Unit::lds:
        k["SQ_INSTS_LDS"] += n;
        break;
    }
  }
  const EngineCounts& e = c.counts;
  k["SQ_INSTS"] = static_cast<double>(total);
  k["SQ_INSTS_LDS"] +=
      static_cast<double>(e.flat_lds);  // recorded: a generic store that lands in the LDS counts in both
  k["SQ_WAVES"] = static_cast<double>(e.waves);
  k["SQ_ITEMS"] = static_cast<double>(e.items);
  k["SQ_WAVES_LT_16"] = static_cast<double>(e.waves_lt_16);
  k["SQ_WAVES_LT_32"] = static_cast<double>(e.waves_lt_32);
  k["SQ_WAVES_LT_48"] = static_cast<double>(e.waves_lt_48);
  k["SQ_WAVES_LT_64"] = static_cast<double>(e.waves_lt_64);
  k["SQ_WAVES_EQ_64"] = static_cast<double>(e.waves_eq_64);
  k["SQ_LDS_IDX_ACTIVE"] = static_cast<double>(e.lds_idx_cycles);
  k["SQ_LDS_BANK_CONFLICT"] = static_cast<double>(e.lds_bank_conflict);
  k["SQ_LDS_ADDR_CONFLICT"] = static_cast<double>(e.lds_addr_conflict);
  k["SQ_LDS_ATOMIC_RETURN"] = static_cast<double>(e.lds_atomic_return);
}

void derive_counters(Counters* out) {
  for (const Sum& sum : sums()) {
    double value = 0;
    bool known = true;
    for (const char* term : sum.terms) {
      const auto it = out->find(term);
      known &= it != out->end();
      if (known) value += it->second;
    }
    if (known) (*out)[sum.name] = sum.times * value;
  }
}

}  // namespace hipsynth
