#include "results.h"

#include <fcntl.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <utility>

namespace hipsynth::runtime {
namespace {

std::string json_dim(const Dim3& d) {
  return "[" + std::to_string(d.x) + ", " + std::to_string(d.y) + ", " + std::to_string(d.z) + "]";
}

std::string json_map(const std::map<std::string, double>& values) {
  std::string out = "{";
  for (const auto& [key, value] : values) {
    if (out.size() > 1) out += ", ";
    out += json_string(key) + ": " + json_number(value);
  }
  return out + "}";
}

std::string measured(const Dispatch& d) {
  return "\"grid\": " + json_dim(d.grid) + ", \"block\": " + json_dim(d.block) +
         ", \"duration_ns\": " + json_number(d.duration_ns) + ", \"bottleneck\": " + json_string(d.bottleneck) +
         ", \"sampled\": " + (d.sampled ? "true" : "false") +
         ", \"groups_simulated\": " + std::to_string(d.groups_simulated) +
         ", \"error_estimate\": " + json_map(d.error) + ", \"counters\": " + json_map(d.counters) +
         ", \"details\": " + json_map(d.details);
}

std::string registers(const KernelInfo& k) {
  return json_map({{"vgprs", k.vgprs},
                   {"agprs", k.agprs},
                   {"sgprs", k.sgprs},
                   {"lds_bytes", k.lds_bytes},
                   {"scratch_bytes", k.scratch_bytes}});
}

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

std::string heading_of(const KernelInfo& kernel) {
  return "{\"symbol\": " + json_string(kernel.symbol) + ", \"name\": " + json_string(kernel.name) +
         ", \"registers\": " + registers(kernel);
}

// Combines the relative errors of two dispatches, assuming the worst case that they have the same sign.
void join_errors(const Dispatch& more, Dispatch* sum) {
  const auto value = [](const Dispatch& d, const std::string& name) {
    const auto at = d.counters.find(name);
    return at == d.counters.end() ? d.duration_ns : at->second;
  };
  for (const auto& [name, error] : more.error) sum->error.try_emplace(name, 0);
  for (auto& [name, error] : sum->error) {
    const auto added = more.error.find(name);
    const double before = value(*sum, name), after = value(more, name);
    const double absolute = error * before + (added == more.error.end() ? 0 : added->second * after);
    error = before + after > 0 ? absolute / (before + after) : 0;
  }
}

bool same(const Dim3& a, const Dim3& b) { return a.x == b.x && a.y == b.y && a.z == b.z; }

// Writes everything with write(2); async-signal-safe.
bool put(int fd, const char* text, size_t size) {
  while (size > 0) {
    ssize_t n = ::write(fd, text, size);
    if (n <= 0) return false;
    text += n;
    size -= static_cast<size_t>(n);
  }
  return true;
}

bool put(int fd, const std::string& text) { return put(fd, text.data(), text.size()); }

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

std::string json_number(double value) {
  if (!std::isfinite(value)) return "null";
  char text[32];
  bool whole = value == std::floor(value) && std::fabs(value) < 9007199254740992.0;
  std::snprintf(text, sizeof text, whole ? "%.0f" : "%.17g", value);
  return text;
}

void Results::open(const std::string& path) {
  path_ = path;
  partial_path_ = path.empty() ? "" : path + ".partial";
}

void Results::add(const KernelInfo& kernel, const Dispatch& dispatch) {
  ++dispatches_;
  auto [slot, added] = index_.try_emplace(kernel.symbol, totals_.size());
  if (added) totals_.emplace_back();
  KernelTotal& total = totals_[slot->second];
  if (added) {
    total.heading = heading_of(kernel);
    total.sum = dispatch;
    total.sum.printf_output.clear();
  } else {
    join_errors(dispatch, &total.sum);
    total.sum.sampled |= dispatch.sampled;
    total.sum.groups_simulated += dispatch.groups_simulated;
    accumulate(total.sum.counters, dispatch.counters);
    accumulate(total.sum.details, dispatch.details);
    total.sum.duration_ns += dispatch.duration_ns;
    total.same_shape = total.same_shape && same(total.sum.grid, dispatch.grid) && same(total.sum.block, dispatch.block);
  }
  ++total.dispatches;
  total.stale = true;
  if (first_.size() < kKeptDispatches) {
    first_.push_back("{\"kernel\": " + std::to_string(slot->second) + ", " + measured(dispatch) + "}");
    render();
  }
}

void Results::render() {
  for (KernelTotal& total : totals_) {
    if (!std::exchange(total.stale, false)) continue;
    total.rendered = total.heading + ", \"dispatches\": " + std::to_string(total.dispatches) +
                     ", \"same_shape\": " + (total.same_shape ? "true" : "false") + ", " + measured(total.sum) + "}";
  }
}

void Results::warn(const std::string& message) {
  if (warned_++ >= kKeptWarnings) return;
  warnings_ += (warnings_.empty() ? "" : ", ") + json_string(message);
}

void Results::fail(const std::string& reason, const std::string& message) {
  if (failed_) return;
  failed_ = true;
  status_ = "\"status\": \"failed\", \"reason\": " + json_string(reason) + ", \"message\": " + json_string(message);
}

void Results::write(bool finished, int signal) const {
  if (path_.empty()) return;
  int fd = ::open(partial_path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return;
  char head[256];
  int size =
      std::snprintf(head, sizeof head,
                    ", \"finished\": %s, \"signal\": %d, \"clock_ns\": %llu, \"dispatch_count\": %llu, "
                    "\"module_kernels\": %llu,\n\"kernels\": [",
                    finished ? "true" : "false", signal, static_cast<unsigned long long>(clock_ns_),
                    static_cast<unsigned long long>(dispatches_), static_cast<unsigned long long>(module_kernels_));
  bool ok = put(fd, "{", 1) && put(fd, status_) && put(fd, ", \"warnings\": [", 15) && put(fd, warnings_) &&
            put(fd, "]", 1) && put(fd, head, static_cast<size_t>(size));
  for (size_t i = 0; ok && i < totals_.size(); ++i)
    ok = put(fd, i ? ",\n" : "\n", i ? 2 : 1) && put(fd, totals_[i].rendered);
  ok = ok && put(fd, "],\n\"dispatches\": [", 18);
  for (size_t i = 0; ok && i < first_.size(); ++i) ok = put(fd, i ? ",\n" : "\n", i ? 2 : 1) && put(fd, first_[i]);
  ok = ok && put(fd, "]}\n", 3);
  if (::close(fd) == 0 && ok) ::rename(partial_path_.c_str(), path_.c_str());
}

}  // namespace hipsynth::runtime
