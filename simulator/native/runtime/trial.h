// Trials compare two programs: digests of what a run leaves behind, inputs drawn again, and poisoned allocations. All
// of it is off by default; the configuration switches it on (config.h).
#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

namespace hipsynth::runtime {

struct TrialOptions {
  bool outputs = false;       // digest copies to the host, and each allocation when it is freed or the program ends
  uint64_t record_bytes = 0;  // also write up to so many of these bytes to `record_path`, in the order of the digests
  std::string record_path;
  uint64_t redraw = 0;           // not 0: a seed by which the inputs of kernels are drawn again
  bool redraw_integers = false;  // also permute inputs that are not floating-point numbers
  uint32_t poison = 0;           // not 0: the word that fills new allocations
  bool watch = false;            // report how often the host had written device memory directly
};

// Changes an input without changing its kind: scales floating-point numbers by 0.75 to 1.25, keeping sign and zeros,
// and, if `integers`, permutes everything else except non-decreasing sequences, which may be offsets.
void redraw(char* data, size_t bytes, uint64_t seed, bool integers);

class Trial {
 public:
  void configure(const TrialOptions& options) { options_ = options; }
  bool on() const { return options_.outputs || options_.redraw != 0 || options_.poison != 0 || options_.watch; }

  void allocated(void* p, size_t bytes, bool device);  // `device`: the host may not touch it
  void released(const void* p);                        // call while the contents still exist
  void release_all();
  void copied_to_host(const char* data, size_t bytes);              // one row of a copy
  void copied_to_device(char* data, size_t bytes, bool continues);  // one row; `continues`: not the first of its copy
  void end_of_copy();
  // Draws again what the host wrote directly, such as managed memory, since it was allocated.
  void before_launch();
  // Around everything that may write device memory.
  void before_operation();
  void after_operation();
  std::string render();  // the digests as the members of a JSON array; ends with those of live allocations

 private:
  struct Buffer {
    uint64_t index;
    size_t bytes;
    bool drawn;  // its input has been drawn again, or a kernel may have written it
    bool device;
    std::string state;  // digest after the last operation, if it is watched
  };
  class Digest {
   public:
    void add(const char* data, size_t bytes);
    std::string text() const;
    uint64_t bytes() const { return bytes_; }

   private:
    uint64_t a_ = 0x9e3779b97f4a7c15, b_ = 0xc2b2ae3d27d4eb4f, bytes_ = 0;
  };
  struct Entry {
    std::string kind;
    uint64_t index, bytes, recorded;
    std::string digest;
  };
  void keep(const char* kind, uint64_t index, const Digest& digest, uint64_t recorded);
  uint64_t record(const char* data, size_t bytes);
  static std::string digest_of(uint64_t start, const Buffer& buffer);
  void check(uint64_t start, const Buffer& buffer);

  TrialOptions options_;
  std::map<uint64_t, Buffer> buffers_;  // live allocations by address
  std::vector<Entry> entries_;
  Digest copy_, rest_;  // the copy in progress; what came after the entries that are kept
  uint64_t allocations_ = 0, copies_ = 0, inputs_ = 0, copy_recorded_ = 0, recorded_ = 0;
  uint64_t host_writes_ = 0;  // times that a watched buffer had changed
  std::FILE* file_ = nullptr;
};

}  // namespace hipsynth::runtime
