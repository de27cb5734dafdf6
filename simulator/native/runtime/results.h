// The result document of one run, rendered in advance so that a signal handler can write it.
#pragma once

#include <array>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "channel.h"
#include "core/machine.h"

namespace hipsynth::runtime {

// Exit status of a program that the simulator stopped (an illegal access, a trap, a limit ...).
inline constexpr int kStopExit = 113;

// Number of dispatches reported individually; later ones only count in their kernel's totals.
inline constexpr size_t kKeptDispatches = 64;
inline constexpr size_t kKeptWarnings = 16;
// Number of launch shapes reported individually; each kernel has one further row for all others.
inline constexpr size_t kKeptShapes = 256;

std::string json_string(const std::string& text);

// Copies and fills; their names in the document are kTransfers.
enum class Transfer { to_device, to_host, on_device, fill };
inline constexpr std::array kTransfers = {"host_to_device", "device_to_host", "device_to_device", "fill"};

// What the runtime had to refuse a program; their names in the document are kNotices.
enum class Notice { unsupported_call, out_of_memory, missing_code_object };
inline constexpr std::array kNotices = {"unsupported_call", "out_of_memory", "missing_code_object"};
inline constexpr size_t kKeptNotices = 64, kNoticeChars = 1000;

// Which build of a kernel a launch was of. `variant`: members of the kernel's JSON object that tell what it was
// specialized for; builds that differ in them are kept apart. `module`: its serial number. `elf`: the code object if it
// was loaded at run time, else null.
struct KernelBuild {
  const std::string& variant;
  uint64_t module;
  const std::vector<uint8_t>* elf;
};

class Results {
 public:
  // Under a budget, also launches without counters are added.
  void add(const KernelInfo& kernel, const KernelBuild& build, const Dispatch& dispatch);
  void add_transfer(Transfer kind, double bytes, double ns);
  void add_device_time(double s) { device_s_ += s; }
  void warn(const std::string& message);                             // keeps at most kKeptWarnings
  void add_race(const std::string& description);                     // likewise
  void add_unfenced(const std::string& description);                 // likewise
  bool note(Notice kind, const std::string& subject);                // false: kept already, or one too many
  void fail(Reason reason, const std::string& message);              // only the first failure is kept
  void fail(const std::string& reason, const std::string& message);  // for a reason of the process that embeds it
  // The instruction that failed, by its address in the code object that defines the kernel.
  void set_fault(const std::string& symbol, uint64_t address);
  // Likewise of the first access out of bounds that was let pass.
  void set_warned_at(const std::string& symbol, uint64_t address);
  void start_clock(double ns) { clock_start_ns_ = ns; }
  void set_clock(double ns) { clock_ns_ = ns - clock_start_ns_; }
  void set_outputs(std::string rendered);
  // A JSON object: operators that a script ran on the CPU, and how often.
  void set_host_operators(std::string rendered);
  void set_limited(bool limited) { limited_ = limited; }
  void set_tally(const InstructionTally* tally) { tally_ = tally; }  // or null
  void set_module(size_t kernels) { module_kernels_ = kernels; }
  void add_refused_launch() { ++refused_; }
  uint64_t dispatches() const { return dispatches_; }
  // Launches since the last one of a new kernel or shape.
  uint64_t since_new() const { return since_new_; }

  // Renders what was added since the last call. Only the first kKeptDispatches dispatches are rendered individually,
  // because programs with many thousand launches would spend most of their time on it.
  void render();

  // Writes the document to the channel; does nothing if that is not open. Async-signal-safe: it only copies text that
  // is already rendered, and no ResultsChange may exist. `signal`: 0, or the number of the signal whose handler calls
  // it.
  void write(bool finished, int signal) const;

 private:
  struct KernelTotal {
    std::string heading;  // start of its JSON object: static facts about the kernel
    uint64_t dispatches = 0;
    bool same_shape = true;
    bool coarse = false;  // all dispatches were, see Treatment
    Dispatch sum;         // grid and block of the first dispatch
    bool stale = false;
    std::string rendered;  // its JSON object
  };

  using Shape = std::array<uint32_t, 7>;  // grid, block and bytes of LDS
  // The launches of a kernel in one shape.
  struct ShapeTotal {
    size_t kernel = 0;  // position in totals_
    uint64_t dispatches = 0;
    bool same_shape = true;  // false: of shapes beyond kKeptShapes
    Dispatch sum{};          // unset while the kernel has no other shape: then it is the kernel's
    bool stale = false;
    std::string rendered;
  };

  // What became of a kernel's launches under DeviceOptions::budget_s.
  struct Spending {
    std::string heading;
    uint64_t launches = 0, counted = 0, coarse = 0, reused = 0, uncounted = 0, incomplete = 0;
    double counting_ns = 0, running_ns = 0;
    bool stale = false;
    std::string rendered;
  };
  // The parts of the document, as write() calls them.
  void write_head(bool finished, int signal, Channel::Writer* out) const;
  void write_transfers(Channel::Writer* out) const;
  // The kernel's symbol, with a number for all but its first variant.
  std::string symbol_of(const KernelInfo& kernel, const std::string& variant);
  Spending& spending_of(const KernelInfo& kernel, const std::string& symbol);
  void record(const KernelInfo& kernel, const std::string& symbol, const std::string& variant,
              const Dispatch& dispatch);
  // Forgets a kernel's launches that were sampled coarsely, if this is the same one, sampled as usual. False: this is
  // the coarse one, to be left out.
  bool replace_coarse(size_t kernel, const Dispatch& dispatch);
  // Comes before the dispatch is added to the total of its kernel. True if its shape is new.
  bool record_shape(size_t kernel, const Dispatch& dispatch);

  std::string status_ = "\"status\": \"ok\", \"reason\": \"\", \"message\": \"\"";
  std::string fault_, warned_at_;  // rendered, with a comma before it
  std::string outputs_;            // rendered digests (trial.h)
  std::string host_operators_ = "{}";
  std::string warnings_, races_, unfenced_, notices_;  // rendered, with commas between them
  size_t warned_ = 0, raced_ = 0, unfenced_count_ = 0;
  std::set<std::pair<Notice, std::string>> noted_;
  bool failed_ = false;
  double clock_ns_ = 0, clock_start_ns_ = 0;
  uint64_t dispatches_ = 0, refused_ = 0, since_new_ = 0;
  std::set<std::tuple<std::string, Shape>> launched_;  // kernel symbol; also of launches without counters
  struct Transferred {
    uint64_t count = 0;
    double bytes = 0, ns = 0;
  };
  std::array<Transferred, kTransfers.size()> transfers_;
  std::map<std::string, std::vector<std::string>> variants_;  // kernel symbol -> its variants
  size_t module_kernels_ = 0;
  double device_s_ = 0;                  // processor time in launches
  bool limited_ = false;                 // there is a budget
  std::map<std::string, size_t> index_;  // kernel symbol -> position in totals_
  std::vector<KernelTotal> totals_;
  std::map<std::pair<size_t, Shape>, size_t> shape_index_;  // position in totals_, shape -> position in shapes_
  std::vector<ShapeTotal> shapes_;                          // in the order of their first launches
  bool several_shapes_ = false;                             // of some kernel
  std::map<std::string, size_t> spending_index_;            // kernel symbol -> position in spending_
  std::vector<Spending> spending_;
  const InstructionTally* tally_ = nullptr;
  struct LaunchedBuild {
    std::string symbol;     // in the document
    uint32_t checksum = 0;  // of the code object, if it was loaded at run time
  };
  std::map<std::pair<std::string, uint64_t>, LaunchedBuild> builds_;  // InstructionTally::Kernel -> what was launched
  std::string instructions_;                                          // rendered: kernels with their instructions
  std::vector<std::string> first_;                                    // rendered dispatches, at most kKeptDispatches
};

}  // namespace hipsynth::runtime
