// Why the execution of a program ended. simulator/errors.py knows each name.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hipsynth {

enum class Reason : uint8_t {
  assertion,
  bad_code_object,
  bad_configuration,
  bad_launch,
  bad_spec,
  bad_work,
  deadlock,
  illegal_access,
  instruction_limit,
  internal_error,
  out_of_memory,
  over_budget,  // never leaves the core: the launch is given up
  recorded,
  settled,
  time_limit,
  trap,
  unsupported_opcode,
  unsupported_service,
};

inline constexpr const char* kReasonNames[] = {
    "assertion", "bad_code_object", "bad_configuration", "bad_launch",     "bad_spec",           "bad_work",
    "deadlock",  "illegal_access",  "instruction_limit", "internal_error", "out_of_memory",      "over_budget",
    "recorded",  "settled",         "time_limit",        "trap",           "unsupported_opcode", "unsupported_service",
};
inline constexpr size_t kReasons = sizeof kReasonNames / sizeof *kReasonNames;
static_assert(kReasons == static_cast<size_t>(Reason::unsupported_service) + 1);

constexpr const char* name_of(Reason reason) { return kReasonNames[static_cast<size_t>(reason)]; }

}  // namespace hipsynth
