#include "timing/work.h"

#include "core/machine.h"

namespace hipsynth {
namespace {

struct Field {
  const char* name;
  double Work::* member;
};

constexpr Field kFields[] = {
    {"groups", &Work::groups},
    {"waves_per_group", &Work::waves_per_group},
    {"groups_per_cu", &Work::groups_per_cu},
    {"waves", &Work::waves},
    {"valu_full", &Work::valu_full},
    {"valu_trans", &Work::valu_trans},
    {"valu_f64", &Work::valu_f64},
    {"valu_int64_mul", &Work::valu_int64_mul},
    {"mfma_cycles", &Work::mfma_cycles},
    {"salu", &Work::salu},
    {"smem", &Work::smem},
    {"vmem", &Work::vmem},
    {"lds", &Work::lds},
    {"flow", &Work::flow},
    {"lds_cycles", &Work::lds_cycles},
    {"store_waits", &Work::store_waits},
    {"l1_waits", &Work::l1_waits},
    {"l2_waits", &Work::l2_waits},
    {"infinity_waits", &Work::infinity_waits},
    {"hbm_waits", &Work::hbm_waits},
    {"scalar_hit_waits", &Work::scalar_hit_waits},
    {"scalar_l2_waits", &Work::scalar_l2_waits},
    {"scalar_infinity_waits", &Work::scalar_infinity_waits},
    {"scalar_hbm_waits", &Work::scalar_hbm_waits},
    {"lds_waits", &Work::lds_waits},
    {"barriers", &Work::barriers},
    {"store_tails", &Work::store_tails},
    {"l1_cycles_busiest_cu", &Work::l1_cycles_busiest_cu},
    {"l2_requests_busiest_channel", &Work::l2_requests_busiest_channel},
    {"l2_turns_busiest_channel", &Work::l2_turns_busiest_channel},
    {"l2_transfers", &Work::l2_transfers},
    {"atomics_busiest_line", &Work::atomics_busiest_line},
    {"fabric_read_bytes", &Work::fabric_read_bytes},
    {"fabric_write_bytes", &Work::fabric_write_bytes},
    {"hbm_read_bytes", &Work::hbm_read_bytes},
    {"hbm_write_bytes", &Work::hbm_write_bytes},
    {"flushed_bytes", &Work::flushed_bytes},
};
static_assert(sizeof(Work) == std::size(kFields) * sizeof(double), "a member of Work has no name");

}  // namespace

std::map<std::string, double> to_numbers(const Work& work) {
  std::map<std::string, double> numbers;
  for (const Field& field : kFields) numbers[field.name] = work.*field.member;
  return numbers;
}

Work from_numbers(const std::map<std::string, double>& numbers) {
  Work work;
  for (const auto& [name, value] : numbers) {
    const Field* found = nullptr;
    for (const Field& field : kFields) {
      if (name == field.name) found = &field;
    }
    if (!found) throw SimError("bad_work", "the timing model knows no " + name);
    work.*found->member = value;
  }
  return work;
}

}  // namespace hipsynth
