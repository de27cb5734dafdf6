// Messages for accesses that hardware would answer with a memory fault.
#include <cinttypes>
#include <cstdio>

#include "core/hostcall.h"
#include "core/state.h"

namespace hipsynth {
namespace {

std::string hex(uint64_t v) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%" PRIx64, v);
  return text;
}

std::string place(const Context& c, const Resident& r, const Step& s, int lane) {
  const Dim3& g = r.group->id;
  std::string text = "kernel " + c.kernel.name;
  if (s.inst) {
    const Code& code = c.program.module->code();
    const auto index = static_cast<size_t>(s.inst - code.insts.data());
    if (index < code.text.size()) text += ", instruction `" + code.text[index] + "`";
  }
  text += ", work-group (" + std::to_string(g.x) + ", " + std::to_string(g.y) + ", " + std::to_string(g.z) +
          "), wave " + std::to_string(r.index);
  if (lane >= 0) text += ", lane " + std::to_string(lane);
  return text;
}

std::string neighbourhood(const Context& c, const Fault& f) {
  constexpr uint64_t kNearBytes = 4096;
  if (f.address < kNearBytes) return "; that is a null pointer";
  const Memory::Allocation* gone = c.memory.freed(f.address);
  // An overrun is likelier than a pointer to what was freed, if both may be.
  const Memory::Allocation* a = gone ? c.memory.preceding(f.address) : c.memory.nearest(f.address);
  if (gone && !(a && f.address - a->start < a->bytes + kNearBytes))
    return "; the allocation of " + std::to_string(gone->bytes) + " bytes at " + hex(gone->start) + " has been freed";
  if (!a) return "; nothing is allocated";
  const uint64_t end = a->start + a->bytes;
  std::string text = "; the nearest allocation is " + hex(a->start) + " of " + std::to_string(a->bytes) + " bytes";
  if (f.address < a->start) return text + ", which begins " + std::to_string(a->start - f.address) + " bytes after";
  if (f.address < end) return text + ", of which the access overruns the end";
  text += ", which ends " + std::to_string(f.address - end) + " bytes before";
  return gone ? text + "; an allocation that lay there has been freed" : text;
}

// Throws SimError "assertion" if a failed assertion printed its message before the trap.
void check_assertion(const Context& c, const std::string& where) {
  const std::string& text = c.host.errors();
  for (const char* words : {"Device-side assertion `", "device assertion failed: '"}) {  // of HIP's headers, of Triton
    const size_t mark = text.rfind(words);
    if (mark == std::string::npos) continue;
    const size_t start = text.rfind('\n', mark) + 1;  // npos + 1 == 0: start of the text
    throw SimError(Reason::assertion, text.substr(start, text.find('\n', mark) - start) + " In " + where);
  }
}

std::string describe(const Context& c, const Resident& r, const Step& s, const Fault& f) {
  return std::string(f.what) + " of " + std::to_string(f.bytes) + " bytes at " + hex(f.address) + " in " +
         place(c, r, s, f.lane);
}

[[noreturn]] void throw_at(const Step& s, SimError error) {
  if (s.inst) error.instruction = s.inst->address;
  throw error;
}

std::string lds_size(const Resident& r) {
  return "; the work-group has " + std::to_string(r.group->lds.size()) + " bytes of LDS";
}

}  // namespace

void out_of_bounds_access(Context& c, const Resident& r, const Step& s, const Fault& f) {
  if (c.strict_bounds || !c.memory.mapped(f.address, f.bytes)) throw_illegal_access(c, r, s, f);
  if (c.out_of_bounds.count++ == 0) {
    c.out_of_bounds.first = describe(c, r, s, f) + neighbourhood(c, f) + "; hardware maps that memory too";
    c.out_of_bounds.instruction = s.inst ? s.inst->address : 0;
  }
}

void out_of_bounds_in_lds(Context& c, const Resident& r, const Step& s, const Fault& f) {
  if (c.strict_bounds) throw_illegal_access(c, r, s, f);
  if (c.out_of_bounds.count++ == 0) {
    c.out_of_bounds.first =
        describe(c, r, s, f) + lds_size(r) + "; hardware reads zero there and drops what is written";
    c.out_of_bounds.instruction = s.inst ? s.inst->address : 0;
  }
}

void throw_illegal_access(const Context& c, const Resident& r, const Step& s, const Fault& f) {
  std::string text = "illegal access: " + describe(c, r, s, f);
  switch (f.memory) {
    case FaultMemory::global:
      text += neighbourhood(c, f);
      break;
    case FaultMemory::lds:
      text += lds_size(r);
      break;
    case FaultMemory::scratch:
      text += "; a lane has " + std::to_string(c.scratch_lane_bytes) + " bytes of private memory";
  }
  throw_at(s, SimError(Reason::illegal_access, text));
}

void throw_scratch_overflow(const Context& c, const Resident& r, const Step& s, uint64_t offset, int lane) {
  throw_illegal_access(c, r, s, {"private (stack) access", offset, s.lane_bytes, lane, FaultMemory::scratch});
}

void throw_trap(const Context& c, const Resident& r, const Step& s) {
  const std::string where = place(c, r, s, -1);
  check_assertion(c, where);
  throw_at(s, SimError(Reason::trap,
                       "the kernel stopped itself (failed assertion, __builtin_trap or unreachable code): " + where));
}

}  // namespace hipsynth
