// hipsynth.simulator._core: the simulated device for Python, and the opcode table's own functions (bind_isa).
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <tuple>

#include "core/machine.h"
#include "core/record.h"
#include "core/spec.h"
#include "memory/hierarchy.h"
#include "timing/model.h"

namespace nb = nanobind;
using namespace hipsynth;

namespace {

using Triple = std::tuple<uint32_t, uint32_t, uint32_t>;
using Bytes = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using MutableBytes = nb::ndarray<uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

Dim3 dim3(const Triple& t) { return {std::get<0>(t), std::get<1>(t), std::get<2>(t)}; }
nb::tuple triple(const Dim3& d) { return nb::make_tuple(d.x, d.y, d.z); }

nb::dict kernel_dict(const KernelInfo& k) {
  nb::dict d;
  d["symbol"] = k.symbol;
  d["name"] = k.name;
  d["kernarg_bytes"] = k.kernarg_bytes;
  d["lds_bytes"] = k.lds_bytes;
  d["scratch_bytes"] = k.scratch_bytes;
  d["vgprs"] = k.vgprs;
  d["agprs"] = k.agprs;
  d["sgprs"] = k.sgprs;
  nb::list args;
  for (const KernelArg& a : k.args) args.append(nb::make_tuple(a.offset, a.size, a.kind));
  d["args"] = args;
  return d;
}

// Fills a Python dict from a dispatch (visit in core/record.h).
struct DictVisitor {
  nb::dict out;
  void shape(const char* name, const Dim3& value) { out[name] = triple(value); }
  void number(const char* name, double value) { out[name] = value; }
  void mean(const char* name, double value) { number(name, value); }
  void numbers(const char* name, const std::map<std::string, double>& values) { out[name] = nb::cast(values); }
  void count(const char* name, uint64_t value) { out[name] = value; }
  void text(const char* name, const char* value) { out[name] = value; }
  template <class Fill>
  void part(const char* name, const Fill& fill) {
    DictVisitor inner;
    fill(inner);
    out[name] = inner.out;
  }
};

nb::dict dispatch_dict(const Dispatch& d) {
  DictVisitor v;
  visit(v, d);
  v.out["unreplayed"] = d.sampling.unreplayed;
  v.out["out_of_bounds"] = d.out_of_bounds;
  v.out["printf"] = nb::bytes(d.printf_output.data(), d.printf_output.size());
  return v.out;
}

nb::dict estimate_dict(const SpecTable& spec, const std::map<std::string, double>& work) {
  const Timing t = estimate(make_spec(spec), from_numbers(work));
  nb::dict out, bounds;
  for (size_t i = 0; i < kBoundNames.size(); ++i) bounds[kBoundNames[i]] = t.limits.bounds[i];
  out["duration_ns"] = t.duration_ns;
  out["busy_cycles"] = t.busy_cycles;
  out["bottleneck"] = kBoundNames[static_cast<size_t>(t.limits.bottleneck)];
  out["bounds"] = bounds;
  return out;
}

// Lets a signal's Python handler end a launch, which runs without the interpreter's lock.
void poll_signals() {
  nb::gil_scoped_acquire locked;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

// A device and the modules loaded on it; modules are destroyed first.
class PyDevice {
 public:
  PyDevice(const std::string& arch, const SpecTable& spec, bool count, uint64_t max_wave_instructions,
           uint64_t memory_bytes, double cpu_seconds, bool values, uint32_t sampling_units, uint64_t sample_above,
           uint32_t replayable, bool in_part, uint32_t repeatable, double largest_error, uint32_t per_kernel,
           bool reuse, bool keep_l2, bool strict_bounds)
      : device_(parse_arch(arch), make_spec(spec),
                DeviceOptions{.count = count,
                              .max_wave_instructions = max_wave_instructions,
                              .memory_bytes = memory_bytes,
                              .cpu_seconds = cpu_seconds,
                              .poll = poll_signals,
                              .values = values,
                              .sampling_units = sampling_units,
                              .sample_above = sample_above,
                              .replayable = replayable,
                              .in_part = in_part,
                              .repeatable = repeatable,
                              .largest_error = largest_error,
                              .strict_bounds = strict_bounds,
                              .per_kernel = per_kernel,
                              .reuse = reuse,
                              .keep_l2 = keep_l2}) {}

  void reset() { device_.reset(); }
  void empty_l2() { device_.empty_l2(); }

  uint64_t allocate(uint64_t bytes) {
    return reinterpret_cast<uint64_t>(device_.memory().allocate(bytes, Memory::Kind::device));
  }
  uint64_t allocate_at(uint64_t offset, uint64_t bytes) {
    return reinterpret_cast<uint64_t>(device_.memory().allocate_at(offset, bytes));
  }
  uint64_t arena() { return device_.memory().start(); }
  bool release(uint64_t address) { return device_.memory().release(reinterpret_cast<void*>(address)); }

  void write(uint64_t address, const Bytes& data) {
    std::memcpy(checked(address, data.size()), data.data(), data.size());
  }
  void fill(uint64_t address, uint64_t bytes, const Bytes& data, uint64_t period) {
    device_.memory().fill(checked(address, bytes), bytes, data.data(), data.size(), std::max<uint64_t>(1, period));
  }
  void read(uint64_t address, const MutableBytes& out) {
    std::memcpy(out.data(), checked(address, out.size()), out.size());
  }

  size_t load(nb::bytes elf, const std::string& disassembly) {
    const auto* p = static_cast<const uint8_t*>(elf.data());
    modules_.push_back(
        Module::load(device_.arch(), device_.memory(), std::vector<uint8_t>(p, p + elf.size()), disassembly));
    return modules_.size() - 1;
  }

  size_t load_text(const std::string& text, uint32_t vgprs, uint32_t accum_offset, uint32_t lds_bytes,
                   uint32_t scratch_bytes, uint32_t kernarg_bytes, uint32_t mode) {
    KernelInfo k;
    k.symbol = k.name = "kernel";
    k.vgprs = vgprs;
    k.lds_bytes = lds_bytes;
    k.scratch_bytes = scratch_bytes;
    k.kernarg_bytes = kernarg_bytes + 8;
    k.args.push_back({kernarg_bytes, 8, "hidden_printf_buffer"});
    k.accum_offset = accum_offset;
    k.sgprs = 104;
    // Kernel descriptor: register granules, MODE, two user SGPRs with the argument pointer, work-group id x.
    k.rsrc1 = ((std::max(vgprs, 8u) + 7) / 8 - 1) & 0x3f;
    k.rsrc1 |= (mode & 0xff) << 12 | (mode >> 8 & 1) << 21 | (mode >> 9 & 1) << 23;
    k.rsrc2 = 2 << 1 | 1 << 7;
    k.code_properties = 8;
    modules_.push_back(Module::from_text(device_.arch(), device_.memory(), text, std::move(k)));
    return modules_.size() - 1;
  }

  nb::list kernels(size_t module) const {
    nb::list out;
    for (const KernelInfo* k : at(module).kernels()) out.append(kernel_dict(*k));
    return out;
  }

  nb::tuple global(size_t module, const std::string& symbol) const {
    const auto [address, bytes] = at(module).global(symbol);
    return nb::make_tuple(address, bytes);
  }

  bool decided_by_data(size_t module, const std::string& symbol) {
    return device_.decided_by_data(at(module), *kernel_of(module, symbol));
  }

  nb::dict launch(size_t module, const std::string& symbol, const Triple& grid, const Triple& block, nb::bytes args,
                  uint32_t dynamic_lds, bool cooperative) {
    const KernelInfo* kernel = kernel_of(module, symbol);
    const auto* p = static_cast<const uint8_t*>(args.data());
    Launch request{&at(module), kernel, dim3(grid), dim3(block), dynamic_lds, std::vector<uint8_t>(p, p + args.size()),
                   cooperative};
    Dispatch d;
    {
      nb::gil_scoped_release unlocked;
      d = device_.launch(request);
    }
    return dispatch_dict(d);
  }

 private:
  void* checked(uint64_t address, uint64_t bytes) {
    if (!device_.memory().find(address, bytes))
      throw SimError(Reason::illegal_access,
                     "copy of " + std::to_string(bytes) + " bytes is not inside one allocation");
    return reinterpret_cast<void*>(address);
  }
  const KernelInfo* kernel_of(size_t module, const std::string& symbol) const {
    const KernelInfo* kernel = at(module).kernel(symbol);
    if (!kernel) throw SimError(Reason::bad_launch, "no kernel " + symbol + " in the code object");
    return kernel;
  }
  const Module& at(size_t module) const {
    if (module >= modules_.size()) throw SimError(Reason::bad_launch, "no such module");
    return *modules_[module];
  }

  Device device_;
  std::vector<std::unique_ptr<Module>> modules_;
};

// Throws std::invalid_argument (ValueError).
Access parse_access(const std::string& kind) {
  if (kind == "load") return Access::load;
  if (kind == "store") return Access::store;
  if (kind == "atomic") return Access::atomic;
  throw std::invalid_argument("no kind of access: " + kind);
}

// The memory hierarchy alone, for tests of its behaviour.
class PyHierarchy {
 public:
  PyHierarchy(const std::string& arch, const SpecTable& spec) : model_(parse_arch(arch), make_spec(spec)) {}
  void begin() { model_.begin_dispatch(); }
  int access(uint32_t cu, const std::string& kind, const std::vector<uint64_t>& addresses, uint32_t bytes,
             uint64_t exec, bool returns, bool contiguous) {
    alignas(64) uint64_t lanes[64] = {};
    std::copy_n(addresses.begin(), std::min<size_t>(addresses.size(), 64), lanes);
    return static_cast<int>(model_.access(cu, {parse_access(kind), bytes, exec, lanes, contiguous, returns}));
  }
  std::map<std::string, double> end() {
    model_.end_dispatch();
    std::map<std::string, double> counters;
    model_.counters(&counters);
    return counters;
  }

 private:
  Hierarchy model_;
};

}  // namespace

namespace hipsynth {
void bind_isa(nb::module_& m);  // isa_bindings.cpp
}

NB_MODULE(_core, m) {
  m.doc() = "Executes AMDGPU machine code (gfx90a, gfx942, gfx950) and counts what the hardware counts.";
  // One of the tool's typed errors: SimError(reason, message).
  static nb::object error = nb::module_::import_("hipsynth.simulator.errors").attr("SimError");
  m.attr("SimError") = error;
  nb::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const SimError& e) {
      PyErr_SetObject(error.ptr(), nb::make_tuple(name_of(e.reason), std::string(e.what())).ptr());
    }
  });
  m.def(
      "reasons", [] { return std::vector<std::string>(std::begin(kReasonNames), std::end(kReasonNames)); },
      "Names of why an execution ends.");
  m.def("spec_keys", &spec_keys, "Keys that an architecture table must have.");
  m.def("estimate", &estimate_dict, nb::arg("spec"), nb::arg("work"),
        "The timing model alone: `work` is what a dispatch did, as its result has it.");
  nb::class_<PyDevice>(m, "Device", "One simulated device; memory and caches live as long as it does.")
      .def(nb::init<const std::string&, const SpecTable&, bool, uint64_t, uint64_t, double, bool, uint32_t, uint64_t,
                    uint32_t, bool, uint32_t, double, uint32_t, bool, bool, bool>(),
           nb::arg("arch"), nb::arg("spec"), nb::arg("count") = true,
           nb::arg("max_wave_instructions") = 2'000'000'000ull, nb::arg("memory_bytes") = 8ull << 30,
           nb::arg("cpu_seconds") = 0.0, nb::arg("values") = true, nb::arg("sampling_units") = 0,
           nb::arg("sample_above") = DeviceOptions{}.sample_above, nb::arg("replayable") = DeviceOptions{}.replayable,
           nb::arg("in_part") = false, nb::arg("repeatable") = DeviceOptions{}.repeatable,
           nb::arg("largest_error") = 0.0, nb::arg("per_kernel") = 0, nb::arg("reuse") = true,
           nb::arg("keep_l2") = false, nb::arg("strict_bounds") = true)
      .def("reset", &PyDevice::reset, "Empties all caches.")
      .def("empty_l2", &PyDevice::empty_l2, "Empties the L2, as a copy by the host does.")
      .def("allocate", &PyDevice::allocate, nb::arg("bytes"), "Device address of a new allocation.")
      .def("allocate_at", &PyDevice::allocate_at, nb::arg("offset"), nb::arg("bytes"),
           "Device address of a new allocation at an offset from `arena`.")
      .def("arena", &PyDevice::arena, "The lowest address of device memory.")
      .def("release", &PyDevice::release, nb::arg("address"), "False when `address` is not the start of an allocation.")
      .def("write", &PyDevice::write, nb::arg("address"), nb::arg("data"),
           "Copies bytes (uint8 array) to device memory.")
      .def("fill", &PyDevice::fill, nb::arg("address"), nb::arg("bytes"), nb::arg("data"), nb::arg("period"),
           "Writes an uint8 array every `period` bytes, and zeros between, to so many bytes of device memory.")
      .def("read", &PyDevice::read, nb::arg("address"), nb::arg("out"), "Copies device memory into a uint8 array.")
      .def("load", &PyDevice::load, nb::arg("elf"), nb::arg("disassembly"), "Loads a code object; returns its number.")
      .def("load_text", &PyDevice::load_text, nb::arg("text"), nb::arg("vgprs") = 128, nb::arg("accum_offset") = 64,
           nb::arg("lds_bytes") = 0, nb::arg("scratch_bytes") = 0, nb::arg("kernarg_bytes") = 64,
           nb::arg("mode") = 0x3f0,
           "Loads assembler lines as a kernel named `kernel`: s[0:1] points at `kernarg_bytes` of arguments "
           "and the printf buffer's address behind them, s2 is the work-group, v0 the work-item.")
      .def("kernels", &PyDevice::kernels, nb::arg("module"), "Descriptors of a module's kernels.")
      .def("symbol", &PyDevice::global, nb::arg("module"), nb::arg("symbol"),
           "(address, bytes) of a global variable, (0, 0) when absent.")
      .def("decided_by_data", &PyDevice::decided_by_data, nb::arg("module"), nb::arg("kernel"),
           "Whether addresses or control flow of a kernel may depend on what its vector loads read.")
      .def(
          "launch", &PyDevice::launch, nb::arg("module"), nb::arg("kernel"), nb::arg("grid"), nb::arg("block"),
          nb::arg("args"), nb::arg("dynamic_lds") = 0, nb::arg("cooperative") = false,
          "Runs one dispatch to its end; grid in work-groups. `args`: explicit arguments laid out as in the metadata.");
  nb::class_<PyHierarchy>(m, "MemoryModel", "Coalescer, vL1D, L2, Infinity Cache and fabric without a device.")
      .def(nb::init<const std::string&, const SpecTable&>(), nb::arg("arch"), nb::arg("spec"))
      .def("begin", &PyHierarchy::begin, "Starts a dispatch.")
      .def(
          "access", &PyHierarchy::access, nb::arg("cu"), nb::arg("kind"), nb::arg("addresses"), nb::arg("bytes"),
          nb::arg("exec") = ~0ull, nb::arg("returns") = true, nb::arg("contiguous") = false,
          "One wave instruction (kind: load, store, atomic); returns the deepest level, 1 vL1D to 4 HBM. `contiguous`: "
          "the core knows that all lanes lie side by side.")
      .def("end", &PyHierarchy::end, "Ends the dispatch and returns its counters.");
  bind_isa(m);
}
