#include "results.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <functional>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "core/record.h"
#include "core/tally.h"
#include "results_change.h"

namespace hipsynth::runtime {
namespace {

void append_number(double value, std::string* out) {
  char text[32];
  const bool whole = value == std::floor(value) && std::fabs(value) < 9007199254740992.0;
  const std::to_chars_result end = whole ? std::to_chars(text, std::end(text), static_cast<int64_t>(value))
                                         : std::to_chars(text, std::end(text), value);
  if (std::isfinite(value)) {
    out->append(text, end.ptr);
  } else {
    *out += "null";
  }
}

// An instruction, as FaultPlace of run_result.py.
std::string json_place(const std::string& symbol, uint64_t address) {
  return "{\"symbol\": " + json_string(symbol) + ", \"address\": " + std::to_string(address) + "}";
}

// Appends the members of a JSON object, each followed by a comma.
struct JsonVisitor {
  std::string* out;
  double dispatches;

  void key(const char* name) { ((*out += '"') += name) += "\": "; }
  void shape(const char* name, const Dim3& d) {
    key(name);
    *out += "[" + std::to_string(d.x) + ", " + std::to_string(d.y) + ", " + std::to_string(d.z) + "], ";
  }
  void number(const char* name, double value) {
    key(name);
    append_number(value, out);
    *out += ", ";
  }
  void mean(const char* name, double sum) { number(name, sum / dispatches); }
  void count(const char* name, uint64_t value) {
    key(name);
    *out += std::to_string(value) += ", ";
  }
  void text(const char* name, const std::string& value) {
    key(name);
    *out += json_string(value) += ", ";
  }
  template <class Fill>
  void part(const char* name, const Fill& fill) {
    key(name);
    *out += '{';
    fill(*this);
    close();
    *out += ", ";
  }
  void numbers(const char* name, const std::map<std::string, double>& values) {
    part(name, [&](JsonVisitor& inner) {
      for (const auto& [inner_name, value] : values) inner.number(inner_name.c_str(), value);
    });
  }
  // Ends the object: the comma after its last member goes.
  void close() {
    if (out->ends_with(", ")) out->resize(out->size() - 2);
    *out += '}';
  }
};

// Dispatches of one kernel nearly always have the same keys, so iterate over both maps in parallel instead of
// searching.
void accumulate(std::map<std::string, double>& sum, const std::map<std::string, double>& values) {
  auto at = sum.begin();
  for (const auto& [key, value] : values) {
    if (at == sum.end() || at->first != key) at = sum.try_emplace(key, 0).first;
    at->second += value;
    ++at;
  }
}

template <class Part>
void accumulate(std::optional<Part>& sum, const std::optional<Part>& more) {
  if (!more) return;
  if (!sum) sum.emplace();
  for (const Field<Part>& field : Part::kFields) (*sum).*field.member += (*more).*field.member;
}

void accumulate(std::optional<Limits>& sum, const std::optional<Limits>& more) {
  if (!more) return;
  if (!sum) sum = Limits{.bottleneck = more->bottleneck};
  sum->wave_cycles += more->wave_cycles;
  for (size_t i = 0; i < sum->bounds.size(); ++i) sum->bounds[i] += more->bounds[i];
}

// Combines the relative errors of two dispatches, assuming the worst case that they have the same sign.
void join_errors(const Dispatch& more, Dispatch* sum) {
  const auto value = [](const Dispatch& d, const std::string& name) {
    const auto at = d.counters.find(name);
    return at == d.counters.end() ? d.duration_ns : at->second;
  };
  for (const auto& [name, error] : more.sampling.error) sum->sampling.error.try_emplace(name, 0);
  for (auto& [name, error] : sum->sampling.error) {
    const auto added = more.sampling.error.find(name);
    const double before = value(*sum, name), after = value(more, name);
    const double absolute = error * before + (added == more.sampling.error.end() ? 0 : added->second * after);
    error = before + after > 0 ? absolute / (before + after) : 0;
  }
}

// Adds what a later dispatch did; shapes and the bottleneck stay the first one's.
void accumulate(Dispatch& sum, const Dispatch& more) {
  join_errors(more, &sum);
  sum.sampling.strategy = std::max(sum.sampling.strategy, more.sampling.strategy);
  sum.sampling.groups_simulated += more.sampling.groups_simulated;
  sum.sampling.groups_recorded += more.sampling.groups_recorded;
  sum.sampling.reused += more.sampling.reused;
  sum.duration_ns += more.duration_ns;
  accumulate(sum.counters, more.counters);
  accumulate(sum.registers, more.registers);
  sum.limited_by = std::min(sum.limited_by, more.limited_by);
  accumulate(sum.occupancy, more.occupancy);
  accumulate(sum.limits, more.limits);
  accumulate(sum.work, more.work);
  accumulate(sum.traffic, more.traffic);
}

std::array<uint32_t, 7> shape_of(const Dispatch& d) {
  const auto lds_bytes = d.registers ? static_cast<uint32_t>(d.registers->lds_bytes) : 0;
  return {d.grid.x, d.grid.y, d.grid.z, d.block.x, d.block.y, d.block.z, lds_bytes};
}

// The record of a kernel; `sum` is over all its dispatches.
std::string record_of(const std::string& heading, uint64_t dispatches, bool same_shape, const Dispatch& sum) {
  std::string out;
  out.reserve(4096);
  out += heading;
  JsonVisitor v{&out, static_cast<double>(dispatches)};
  v.count("dispatches", dispatches);
  v.key("same_shape");
  out += same_shape ? "true, " : "false, ";
  visit(v, sum);
  v.close();
  return out;
}

// CRC-32, as zlib has it.
uint32_t checksum_of(const std::vector<uint8_t>& data) {
  constexpr uint32_t kPolynomial = 0xedb88320;
  uint32_t crc = ~0u;
  for (const uint8_t byte : data) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? kPolynomial : 0);
  }
  return ~crc;
}

template <class Rows, class Text>
void put_rows(const Rows& rows, const Text& text_of, Channel::Writer* out) {
  for (size_t i = 0; i < rows.size(); ++i) {
    out->put(i ? ",\n" : "\n");
    out->put(text_of(rows[i]));
  }
}

// A kernel's instructions that ran: address, unit, then the events in the order of kInstructionEventNames.
std::string instructions_of(const std::string& symbol, uint32_t checksum,
                            const std::vector<InstructionTally::Instruction>& kernel) {
  std::string out =
      "{\"symbol\": " + json_string(symbol) + ", \"checksum\": " + std::to_string(checksum) + ", \"rows\": [";
  for (const InstructionTally::Instruction& i : kernel) {
    if (!i.unit) continue;
    out += out.ends_with('[') ? "\n[" : ",\n[";
    out += std::to_string(i.address) + ", \"" + i.unit + '"';
    for (const double value : i.row) append_number(value, &(out += ", "));
    out += ']';
  }
  return out + "]}";
}

}  // namespace

std::string json_string(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(static_cast<unsigned char>(c)));
      out += escaped;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string Results::symbol_of(const KernelInfo& kernel, const std::string& variant) {
  if (variant.empty()) return kernel.symbol;
  std::vector<std::string>& known = variants_[kernel.symbol];
  const auto at = std::ranges::find(known, variant);
  const auto index = at - known.begin();
  if (at == known.end()) known.push_back(variant);
  return index == 0 ? kernel.symbol : kernel.symbol + "#" + std::to_string(index + 1);
}

void Results::add(const KernelInfo& kernel, const KernelBuild& build, const Dispatch& dispatch) {
  const ResultsChange change;
  ++dispatches_;
  const std::string& variant = build.variant;
  const std::string symbol = symbol_of(kernel, variant);
  if (tally_) {
    const auto [known, added] = builds_.try_emplace({kernel.symbol, build.module});
    if (added) known->second = {symbol, build.elf ? checksum_of(*build.elf) : 0};
  }
  const bool is_new = launched_.emplace(symbol, shape_of(dispatch)).second;
  since_new_ = is_new ? 0 : since_new_ + 1;
  const Treatment& t = dispatch.treatment;
  if (limited_) {
    Spending& s = spending_of(kernel, symbol);
    ++s.launches;
    s.uncounted += !t.counted;
    s.reused += dispatch.sampling.reused;
    s.counted += t.counted && !dispatch.sampling.reused;
    s.coarse += t.coarse;
    s.incomplete += !t.results;
    s.counting_ns += t.counting_ns;
    s.running_ns += t.running_ns;
    s.stale = true;
  }
  if (t.counted) record(kernel, symbol, variant, dispatch);
  if (limited_ && spending_of(kernel, symbol).launches == 1) render();
}

Results::Spending& Results::spending_of(const KernelInfo& kernel, const std::string& symbol) {
  const auto [slot, added] = spending_index_.try_emplace(symbol, spending_.size());
  if (added) {
    spending_.emplace_back();
    spending_.back().heading = "{";
    JsonVisitor v{&spending_.back().heading, 1};
    v.text("symbol", symbol);
    v.text("signature", kernel.name);
  }
  return spending_[slot->second];
}

void Results::record(const KernelInfo& kernel, const std::string& symbol, const std::string& variant,
                     const Dispatch& dispatch) {
  auto [slot, added] = index_.try_emplace(symbol, totals_.size());
  if (added) totals_.emplace_back();
  KernelTotal& total = totals_[slot->second];
  if (!added && !replace_coarse(slot->second, dispatch)) return;
  const bool new_shape = record_shape(slot->second, dispatch);
  if (added) {
    total.heading = "{";
    JsonVisitor v{&total.heading, 1};
    v.text("symbol", symbol);
    v.text("signature", kernel.name);
    total.heading += variant;
  }
  total.coarse = (total.coarse || total.dispatches == 0) && dispatch.treatment.coarse;
  if (total.dispatches == 0) {
    total.sum = dispatch;
    total.sum.printf_output.clear();
  } else {
    accumulate(total.sum, dispatch);
    total.same_shape = total.same_shape && shape_of(total.sum) == shape_of(dispatch);
  }
  ++total.dispatches;
  total.stale = true;
  if (first_.size() < kKeptDispatches) {
    first_.push_back(record_of(total.heading, 1, true, dispatch));
    render();
  } else if (new_shape) {
    render();
  }
}

bool Results::replace_coarse(size_t kernel, const Dispatch& dispatch) {
  KernelTotal& total = totals_[kernel];
  const bool coarse = dispatch.treatment.coarse;
  if (tally_ || limited_ || total.coarse == coarse) return true;  // a tally and a budget count both
  if (!total.same_shape || shape_of(total.sum) != shape_of(dispatch)) return true;
  if (coarse) return false;
  total.dispatches = 0;
  std::ranges::find(shapes_, kernel, &ShapeTotal::kernel)->dispatches = 0;
  return true;
}

bool Results::record_shape(size_t kernel, const Dispatch& dispatch) {
  const KernelTotal& total = totals_[kernel];
  const Shape shape = shape_of(dispatch), others{};
  const bool kept = shape_index_.contains({kernel, shape}) || shapes_.size() < kKeptShapes;
  const auto [slot, added] = shape_index_.try_emplace({kernel, kept ? shape : others}, shapes_.size());
  if (added) shapes_.emplace_back().kernel = kernel;
  ShapeTotal& row = shapes_[slot->second];
  if (total.dispatches > 0 && !(total.same_shape && shape_of(total.sum) == shape)) {
    several_shapes_ = true;
    if (total.same_shape) std::ranges::find(shapes_, kernel, &ShapeTotal::kernel)->sum = total.sum;
    if (row.dispatches > 0) {
      row.same_shape = row.same_shape && shape_of(row.sum) == shape;
      accumulate(row.sum, dispatch);
    } else {
      row.sum = dispatch;
      row.sum.printf_output.clear();
    }
  }
  ++row.dispatches;
  row.stale = true;
  return added;
}

void Results::render() {
  const ResultsChange change;
  if (tally_) {
    instructions_.clear();
    for (const auto& [kernel, instructions] : tally_->kernels()) {
      const auto launched = builds_.find(kernel);
      if (launched == builds_.end()) continue;  // it has not ended yet
      const LaunchedBuild& build = launched->second;
      instructions_ +=
          (instructions_.empty() ? "\n" : ",\n") + instructions_of(build.symbol, build.checksum, instructions);
    }
  }
  for (KernelTotal& total : totals_) {
    if (!std::exchange(total.stale, false)) continue;
    total.rendered = record_of(total.heading, total.dispatches, total.same_shape, total.sum);
  }
  for (ShapeTotal& row : shapes_) {
    if (!several_shapes_ || !std::exchange(row.stale, false)) continue;
    const KernelTotal& kernel = totals_[row.kernel];
    row.rendered =
        kernel.same_shape ? kernel.rendered : record_of(kernel.heading, row.dispatches, row.same_shape, row.sum);
  }
  for (Spending& s : spending_) {
    if (!std::exchange(s.stale, false)) continue;
    s.rendered = s.heading;
    JsonVisitor v{&s.rendered, 1};
    v.count("launches", s.launches);
    v.count("counted", s.counted);
    v.count("coarse", s.coarse);
    v.count("reused", s.reused);
    v.count("uncounted", s.uncounted);
    v.count("incomplete", s.incomplete);
    v.number("counting_ns", s.counting_ns);
    v.number("running_ns", s.running_ns);
    v.close();
  }
}

void Results::add_transfer(Transfer kind, double bytes, double ns) {
  const ResultsChange change;
  Transferred& sum = transfers_[static_cast<size_t>(kind)];
  ++sum.count;
  sum.bytes += bytes;
  sum.ns += ns;
}

void Results::warn(const std::string& message) {
  const ResultsChange change;
  if (warned_++ >= kKeptWarnings) return;
  warnings_ += (warnings_.empty() ? "" : ", ") + json_string(message);
}

void Results::add_race(const std::string& description) {
  const ResultsChange change;
  if (raced_++ >= kKeptWarnings) return;
  races_ += (races_.empty() ? "" : ", ") + json_string(description);
}

void Results::add_unfenced(const std::string& description) {
  const ResultsChange change;
  if (unfenced_count_++ >= kKeptWarnings) return;
  unfenced_ += (unfenced_.empty() ? "" : ", ") + json_string(description);
}

bool Results::note(Notice kind, const std::string& subject) {
  const ResultsChange change;
  const bool once = kind == Notice::out_of_memory;  // many programs ask again for less, or go on without
  if (noted_.size() >= kKeptNotices || !noted_.emplace(kind, once ? "" : subject).second) return false;
  notices_ += std::string(notices_.empty() ? "" : ", ") + "{\"kind\": \"" + kNotices[static_cast<size_t>(kind)] +
              "\", \"subject\": " + json_string(subject.substr(0, kNoticeChars)) + "}";
  return true;
}

void Results::fail(Reason reason, const std::string& message) { fail(std::string(name_of(reason)), message); }

void Results::fail(const std::string& reason, const std::string& message) {
  const ResultsChange change;
  if (failed_) return;
  failed_ = true;
  status_ = "\"status\": \"failed\", \"reason\": " + json_string(reason) + ", \"message\": " + json_string(message);
}

void Results::set_fault(const std::string& symbol, uint64_t address) {
  const ResultsChange change;
  fault_ = ", \"fault\": " + json_place(symbol, address);
}

void Results::set_warned_at(const std::string& symbol, uint64_t address) {
  const ResultsChange change;
  warned_at_ = ", \"warned_at\": " + json_place(symbol, address);
}

void Results::set_outputs(std::string rendered) {
  const ResultsChange change;
  outputs_ = std::move(rendered);
}

void Results::set_host_operators(std::string rendered) {
  const ResultsChange change;
  host_operators_ = std::move(rendered);
}

void Results::write_head(bool finished, int signal, Channel::Writer* out) const {
  char head[320];
  std::snprintf(head, sizeof head,
                ", \"finished\": %s, \"signal\": %d, \"clock_ns\": %llu, \"dispatch_count\": %llu, "
                "\"refused_launches\": %llu, \"module_kernels\": %llu, \"device_ms\": %llu",
                finished ? "true" : "false", signal, static_cast<unsigned long long>(clock_ns_),
                static_cast<unsigned long long>(dispatches_), static_cast<unsigned long long>(refused_),
                static_cast<unsigned long long>(module_kernels_), static_cast<unsigned long long>(device_s_ * 1e3));
  for (const std::string_view text :
       {std::string_view("{"), std::string_view(status_), std::string_view(fault_), std::string_view(warned_at_),
        std::string_view(", \"warnings\": ["), std::string_view(warnings_), std::string_view("], \"races\": ["),
        std::string_view(races_), std::string_view("], \"unfenced\": ["), std::string_view(unfenced_),
        std::string_view("], \"notices\": ["), std::string_view(notices_), std::string_view("]"),
        std::string_view(head)}) {
    out->put(text);
  }
}

void Results::write_transfers(Channel::Writer* out) const {
  out->put(",\n\"transfers\": [");
  bool first = true;
  for (size_t i = 0; i < transfers_.size(); ++i) {
    const Transferred& sum = transfers_[i];
    if (sum.count == 0) continue;
    char row[160];
    std::snprintf(row, sizeof row, "%s{\"kind\": \"%s\", \"count\": %llu, \"bytes\": %.0f, \"ns\": %.0f}",
                  first ? "" : ", ", kTransfers[i], static_cast<unsigned long long>(sum.count), sum.bytes, sum.ns);
    out->put(row);
    first = false;
  }
  out->put("]}\n");
}

void Results::write(bool finished, int signal) const {
  const Channel& channel = Channel::get();
  Channel::Writer out = channel.begin(signal != 0);
  constexpr auto kRendered = [](const auto& row) -> const std::string& { return row.rendered; };
  write_head(finished, signal, &out);
  out.put(",\n\"kernels\": [");
  put_rows(totals_, kRendered, &out);
  out.put("],\n\"shapes\": [");
  if (several_shapes_) put_rows(shapes_, kRendered, &out);
  out.put("],\n\"dispatches\": [");
  put_rows(first_, std::identity{}, &out);
  out.put("],\n\"budget\": [");
  put_rows(spending_, kRendered, &out);
  out.put("],\n\"instructions\": [");
  out.put(instructions_);
  out.put("],\n\"outputs\": [");
  out.put(outputs_);
  out.put("],\n\"host_operators\": ");
  out.put(host_operators_);
  write_transfers(&out);
  channel.publish(out);
}

}  // namespace hipsynth::runtime
