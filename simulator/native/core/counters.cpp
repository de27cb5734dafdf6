#include "core/counters.h"

#include <bit>
#include <string_view>

#include "core/counter_set.h"

namespace hipsynth {
namespace {

// Indexed by Count; the first entry, Count::other, means no counter.
constexpr Counter kValuCounters[] = {Counter::SQ_INSTS_VALU,
                                     Counter::SQ_INSTS_VALU_ADD_F16,
                                     Counter::SQ_INSTS_VALU_MUL_F16,
                                     Counter::SQ_INSTS_VALU_FMA_F16,
                                     Counter::SQ_INSTS_VALU_TRANS_F16,
                                     Counter::SQ_INSTS_VALU_ADD_F32,
                                     Counter::SQ_INSTS_VALU_MUL_F32,
                                     Counter::SQ_INSTS_VALU_FMA_F32,
                                     Counter::SQ_INSTS_VALU_TRANS_F32,
                                     Counter::SQ_INSTS_VALU_ADD_F64,
                                     Counter::SQ_INSTS_VALU_MUL_F64,
                                     Counter::SQ_INSTS_VALU_FMA_F64,
                                     Counter::SQ_INSTS_VALU_TRANS_F64,
                                     Counter::SQ_INSTS_VALU_INT32,
                                     Counter::SQ_INSTS_VALU_INT64,
                                     Counter::SQ_INSTS_VALU_CVT,
                                     Counter::SQ_INSTS_MFMA};

// Counters that are reported even if they are 0, so that every dispatch has the same set of names.
constexpr Counter kAlways[] = {Counter::SQ_INSTS_VMEM_RD,
                               Counter::SQ_INSTS_VMEM_WR,
                               Counter::SQ_INSTS_VMEM,
                               Counter::SQ_INSTS_FLAT,
                               Counter::SQ_INSTS_LDS,
                               Counter::SQ_INSTS_GDS,
                               Counter::SQ_INSTS_BRANCH,
                               Counter::SQ_INSTS_SENDMSG,
                               Counter::SQ_INSTS_VALU,
                               Counter::SQ_ACTIVE_INST_VALU,
                               Counter::SQ_THREAD_CYCLES_VALU,
                               Counter::EXACT_FLOPS,
                               Counter::EXACT_LANES,
                               Counter::EXACT_LANE_SLOTS,
                               Counter::EXACT_READ_BYTES,
                               Counter::EXACT_WRITE_BYTES,
                               Counter::EXACT_ATOMIC_BYTES,
                               Counter::EXACT_LDS_BYTES,
                               Counter::SQ_INSTS_SALU,
                               Counter::SQ_INSTS_SMEM,
                               Counter::SQC_DCACHE_REQ_READ_1,
                               Counter::SQC_DCACHE_REQ_READ_2,
                               Counter::SQC_DCACHE_REQ_READ_4,
                               Counter::SQC_DCACHE_REQ_READ_8,
                               Counter::SQC_DCACHE_REQ_READ_16,
                               Counter::TA_FLAT_WAVEFRONTS,
                               Counter::TA_FLAT_READ_WAVEFRONTS,
                               Counter::TA_FLAT_WRITE_WAVEFRONTS,
                               Counter::TA_FLAT_ATOMIC_WAVEFRONTS,
                               Counter::TA_BUFFER_WAVEFRONTS,
                               Counter::TA_BUFFER_READ_WAVEFRONTS,
                               Counter::TA_BUFFER_WRITE_WAVEFRONTS,
                               Counter::TA_BUFFER_ATOMIC_WAVEFRONTS,
                               Counter::TA_TOTAL_WAVEFRONTS};

// Counters of matrix instructions, by input type.
struct MatrixCounters {
  std::string_view type;
  Counter instructions, operations;
  bool always = true;  // false: reported only if not 0
};
constexpr MatrixCounters kMatrix[] = {
    {"F16", Counter::SQ_INSTS_VALU_MFMA_F16, Counter::SQ_INSTS_VALU_MFMA_MOPS_F16},
    {"BF16", Counter::SQ_INSTS_VALU_MFMA_BF16, Counter::SQ_INSTS_VALU_MFMA_MOPS_BF16},
    {"F32", Counter::SQ_INSTS_VALU_MFMA_F32, Counter::SQ_INSTS_VALU_MFMA_MOPS_F32},
    {"F64", Counter::SQ_INSTS_VALU_MFMA_F64, Counter::SQ_INSTS_VALU_MFMA_MOPS_F64},
    {"I8", Counter::SQ_INSTS_VALU_MFMA_I8, Counter::SQ_INSTS_VALU_MFMA_MOPS_I8},
    {"XF32", Counter::SQ_INSTS_VALU_MFMA_XF32, Counter::SQ_INSTS_VALU_MFMA_MOPS_XF32, false},
    {"F8", Counter::SQ_INSTS_VALU_MFMA_F8, Counter::SQ_INSTS_VALU_MFMA_MOPS_F8, false},
    {"F6F4", Counter::SQ_INSTS_VALU_MFMA_F6F4, Counter::SQ_INSTS_VALU_MFMA_MOPS_F6F4, false},
};

// Counters that are sums of others in every one of 99 recorded dispatches (a copy on three devices, mixbench and a fill
// on one; test data of ROCm/rocprofiler-compute).
struct Sum {
  Counter name;
  std::vector<Counter> terms;
  double times = 1;
};
const std::vector<Sum>& sums() {
  static const std::vector<Sum> table = {
      {Counter::SQ_ACTIVE_INST_SCA, {Counter::SQ_INSTS_SALU, Counter::SQ_INSTS_SMEM}},
      {Counter::SQ_ACTIVE_INST_FLAT, {Counter::SQ_INSTS_FLAT}},
      {Counter::SQ_ACTIVE_INST_VMEM, {Counter::TA_BUFFER_WAVEFRONTS}},
      {Counter::SQ_ACTIVE_INST_LDS, {Counter::SQ_INSTS_LDS}},
      {Counter::SQ_ACTIVE_INST_MISC, {Counter::SQ_INSTS_BRANCH, Counter::SQ_INSTS_SENDMSG}},
      {Counter::SQ_ACTIVE_INST_ANY,
       {Counter::SQ_INSTS_VALU, Counter::SQ_INSTS_SALU, Counter::SQ_INSTS_SMEM, Counter::SQ_INSTS_VMEM,
        Counter::SQ_INSTS_LDS, Counter::SQ_INSTS_BRANCH, Counter::SQ_INSTS_SENDMSG}},
      {Counter::SQ_INST_CYCLES_SALU, {Counter::SQ_INSTS_SALU}},
      {Counter::SQ_INST_CYCLES_SMEM, {Counter::SQ_INSTS_SMEM}},
      {Counter::SQ_INST_CYCLES_VMEM_RD, {Counter::SQ_INSTS_VMEM_RD}},
      {Counter::SQ_INST_CYCLES_VMEM_WR, {Counter::SQ_INSTS_VMEM_WR}},
      {Counter::SQ_INSTS_SMEM_NORM, {Counter::SQ_INSTS_SMEM}, 2},
      {Counter::TD_LOAD_WAVEFRONT, {Counter::SQ_INSTS_VMEM}},
      {Counter::TD_STORE_WAVEFRONT, {Counter::SQ_INSTS_VMEM_WR}},
      {Counter::TCP_TA_TCP_STATE_READ, {Counter::SQ_INSTS_VMEM}},
      {Counter::TCP_VOLATILE, {Counter::TCP_TOTAL_ACCESSES}},
      {Counter::TCP_UTCL1_REQUEST, {Counter::TCP_TOTAL_CACHE_ACCESSES}},
      {Counter::TCP_TCC_RW_READ_REQ, {Counter::TCP_TCC_READ_REQ}},
      {Counter::TCP_TCC_RW_WRITE_REQ, {Counter::TCP_TCC_WRITE_REQ}},
      {Counter::TCP_TCC_RW_ATOMIC_REQ, {Counter::TCP_TCC_ATOMIC_WITH_RET_REQ, Counter::TCP_TCC_ATOMIC_WITHOUT_RET_REQ}},
  };
  return table;
}

using Counters = CounterSet;

void count_valu(const Inst& inst, double n, Counters* out) {
  Counters& k = *out;
  const OpInfo& op = *inst.op;
  k[Counter::SQ_INSTS_VALU] += n;
  if (op.count != Count::other) k[kValuCounters[static_cast<size_t>(op.count)]] += n;
  if (op.rate != Rate::mfma) return;
  for (const MatrixCounters& matrix : kMatrix) {
    if (matrix.type != matrix_type(inst)) continue;
    k[matrix.instructions] += n;
    k[matrix.operations] += n * op.mfma_mops;
  }
}

// Recorded: one quad-cycle of SQ_ACTIVE_INST_VALU per instruction at any rate (f32, f64, int), and 64 work-item cycles
// if all lanes are active. Matrix instructions work on all lanes.
void count_lanes(const OpInfo& op, double n, double lanes, Counters* out) {
  Counters& k = *out;
  const bool matrix = op.rate == Rate::mfma;
  k[Counter::SQ_ACTIVE_INST_VALU] += n;
  k[Counter::SQ_THREAD_CYCLES_VALU] += matrix ? n * kLanes : lanes;
  if (!matrix) k[Counter::EXACT_FLOPS] += lanes * op.flops;
  if (matrix && std::string_view(op.mfma_type) != "I8") k[Counter::EXACT_FLOPS] += n * op.mfma_mops * 512;
}

// Of a flat access all lanes; EngineCounts::flat_lds_bytes are moved to those of the LDS afterwards.
void count_bytes(const OpInfo& op, double lanes, Counters* out) {
  const uint32_t each = moved_bytes(op);
  if (each == 0) return;
  const Counter name = op.mem.space == MemSpace::lds   ? Counter::EXACT_LDS_BYTES
                       : op.mem.kind == MemKind::load  ? Counter::EXACT_READ_BYTES
                       : op.mem.kind == MemKind::store ? Counter::EXACT_WRITE_BYTES
                                                       : Counter::EXACT_ATOMIC_BYTES;
  (*out)[name] += lanes * each;
}

void count_vector(const OpInfo& op, double n, double lanes, Counters* out) {
  (*out)[Counter::EXACT_LANES] += op.rate == Rate::mfma ? n * kLanes : lanes;
  (*out)[Counter::EXACT_LANE_SLOTS] += n * kLanes;
  count_bytes(op, lanes, out);
}

// Counters of the address unit (TA).
struct WavefrontCounters {
  Counter all, read, write, atomic;
};
constexpr WavefrontCounters kFlat{Counter::TA_FLAT_WAVEFRONTS, Counter::TA_FLAT_READ_WAVEFRONTS,
                                  Counter::TA_FLAT_WRITE_WAVEFRONTS, Counter::TA_FLAT_ATOMIC_WAVEFRONTS};
constexpr WavefrontCounters kBuffer{Counter::TA_BUFFER_WAVEFRONTS, Counter::TA_BUFFER_READ_WAVEFRONTS,
                                    Counter::TA_BUFFER_WRITE_WAVEFRONTS, Counter::TA_BUFFER_ATOMIC_WAVEFRONTS};

void count_vmem(const OpInfo& op, double n, Counters* out) {
  Counters& k = *out;
  const MemDesc& m = op.mem;
  if (m.kind == MemKind::cache) return;
  const bool load = m.kind != MemKind::store && m.kind != MemKind::atomic;
  k[Counter::SQ_INSTS_VMEM] += n;
  k[load ? Counter::SQ_INSTS_VMEM_RD : Counter::SQ_INSTS_VMEM_WR] += n;
  k[Counter::TA_TOTAL_WAVEFRONTS] += n;
  if (m.space == MemSpace::image && m.op == MemOp::none) return;  // counts neither as FLAT nor as buffer
  const bool buffer = m.space == MemSpace::buffer || m.space == MemSpace::image;
  const WavefrontCounters& group = buffer ? kBuffer : kFlat;
  if (!buffer) k[Counter::SQ_INSTS_FLAT] += n;
  k[group.all] += n;
  k[load ? group.read : m.kind == MemKind::store ? group.write : group.atomic] += n;
}

// Counts scalar loads by their width in dwords.
void count_smem(const OpInfo& op, double n, Counters* out) {
  (*out)[Counter::SQ_INSTS_SMEM] += n;
  if (op.mem.kind != MemKind::load) return;
  static constexpr Counter kByWidth[] = {Counter::SQC_DCACHE_REQ_READ_1, Counter::SQC_DCACHE_REQ_READ_2,
                                         Counter::SQC_DCACHE_REQ_READ_4, Counter::SQC_DCACHE_REQ_READ_8,
                                         Counter::SQC_DCACHE_REQ_READ_16};
  (*out)[kByWidth[std::countr_zero(uint32_t{op.mem.elem_bytes} * op.mem.count / 4)]] += n;
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
  if (op.count == Count::branch) (*out)[Counter::SQ_INSTS_BRANCH] += n;
  if (op.count == Count::message) (*out)[Counter::SQ_INSTS_SENDMSG] += n;  // recorded: 1 per wave without s_sendmsg
  if (op.count == Count::scalar) (*out)[Counter::SQ_INSTS_SALU] += n;
}

}  // namespace

// Cross-lane operations and cache control move no bytes.
uint32_t moved_bytes(const OpInfo& op) {
  const MemDesc& m = op.mem;
  const bool data = m.kind == MemKind::load || m.kind == MemKind::store || m.kind == MemKind::atomic;
  return data && (op.unit == Unit::vmem || op.unit == Unit::lds) ? uint32_t{m.elem_bytes} * m.count : 0;
}

IssueCounts issue_counts(const Program& program, const std::vector<Executed>& executions) {
  IssueCounts issue;
  for (size_t i = 0; i + 1 < executions.size(); ++i) {
    const uint64_t times = executions[i].times;
    if (times == 0) continue;
    const OpInfo& op = *program.steps[i].inst->op;
    issue.total += times;
    if (uint64_t* unit = issued_by(op.unit, &issue)) {
      *unit += times;
    } else if (op.rate != Rate::mfma) {
      issue.valu_by_rate[static_cast<size_t>(op.rate)] += times;
    } else {
      issue.mfma_cycles += times * matrix_cycles(*program.steps[i].inst, program.module->code().arch);
    }
  }
  return issue;
}

void count_instructions(const Program& program, const EngineCounts& e, const std::vector<Executed>& executions,
                        std::map<std::string, double>* out) {
  CounterSet k;
  uint64_t total = 0;
  for (const Counter name : kAlways) k[name] = 0;
  for (const Counter name : kValuCounters) k[name] = 0;
  for (const MatrixCounters& matrix : kMatrix) {
    if (matrix.always) k[matrix.instructions] = k[matrix.operations] = 0;
  }
  for (size_t i = 0; i + 1 < executions.size(); ++i) {
    const auto [times, lanes] = executions[i];
    if (times == 0) continue;
    const OpInfo& op = *program.steps[i].inst->op;
    const auto n = static_cast<double>(times);
    total += times;
    const bool vector = op.unit == Unit::valu || op.unit == Unit::vmem || op.unit == Unit::lds;
    if (vector) count_vector(op, n, static_cast<double>(lanes), &k);
    switch (op.unit) {
      case Unit::valu:
        count_valu(*program.steps[i].inst, n, &k);
        count_lanes(op, n, static_cast<double>(lanes), &k);
        break;
      case Unit::salu:
        k[Counter::SQ_INSTS_SALU] += n;
        break;
      case Unit::flow:
        count_flow(op, n, &k);
        break;
      case Unit::smem:
        count_smem(op, n, &k);
        break;
      case Unit::vmem:
        count_vmem(op, n, &k);
        break;
      case Unit::lds:
        k[Counter::SQ_INSTS_LDS] += n;
        break;
    }
  }
  constexpr std::array kBytes = {Counter::EXACT_READ_BYTES, Counter::EXACT_WRITE_BYTES, Counter::EXACT_ATOMIC_BYTES};
  for (size_t i = 0; i < kBytes.size(); ++i) k[kBytes[i]] -= static_cast<double>(e.not_requested[i]);
  if (e.flat_lds_bytes) k[Counter::EXACT_LDS_BYTES] += static_cast<double>(e.flat_lds_bytes);
  k[Counter::SQ_INSTS] = static_cast<double>(total);
  k[Counter::SQ_INSTS_LDS] +=
      static_cast<double>(e.flat_lds);  // recorded: a flat store that goes to the LDS counts in both
  k[Counter::SQ_WAVES] = static_cast<double>(e.waves);
  k[Counter::SQ_ITEMS] = static_cast<double>(e.items);
  k[Counter::SQ_WAVES_LT_16] = static_cast<double>(e.waves_lt_16);
  k[Counter::SQ_WAVES_LT_32] = static_cast<double>(e.waves_lt_32);
  k[Counter::SQ_WAVES_LT_48] = static_cast<double>(e.waves_lt_48);
  k[Counter::SQ_WAVES_LT_64] = static_cast<double>(e.waves_lt_64);
  k[Counter::SQ_WAVES_EQ_64] = static_cast<double>(e.waves_eq_64);
  k[Counter::SQ_LDS_IDX_ACTIVE] = static_cast<double>(e.lds_idx_cycles);
  k[Counter::SQ_LDS_BANK_CONFLICT] = static_cast<double>(e.lds_bank_conflict);
  k[Counter::SQ_LDS_ADDR_CONFLICT] = static_cast<double>(e.lds_addr_conflict);
  k[Counter::SQ_LDS_ATOMIC_RETURN] = static_cast<double>(e.lds_atomic_return);
  k.store(out);
}

void derive_counters(std::map<std::string, double>* out) {
  for (const Sum& sum : sums()) {
    double value = 0;
    bool known = true;
    for (const Counter term : sum.terms) {
      const auto it = out->find(name_of(term));
      known &= it != out->end();
      if (known) value += it->second;
    }
    if (known) (*out)[name_of(sum.name)] = sum.times * value;
  }
}

}  // namespace hipsynth
