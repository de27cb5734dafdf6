// Trials compare two programs: digests of what a run leaves behind, inputs drawn again, and poisoned allocations. All
// of it is off by default; the configuration switches it on (config.h).
#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/machine.h"
#include "redraw.h"

namespace hipsynth::runtime {

// What the elements of an allocation are: of the one with this number, if it has so many bytes.
struct KnownElements {
  uint64_t bytes = 0;
  Elements elements = Elements::unknown;
};

struct TrialOptions {
  bool outputs = false;       // digest copies to the host, and each allocation when it is freed or the program ends
  uint64_t record_bytes = 0;  // also write up to so many of these bytes to `record_path`, in the order of the digests
  std::string record_path;
  Redraw redraw;
  std::map<uint64_t, KnownElements> elements;  // by number of the allocation
  std::map<uint64_t, InputKind> inputs;        // by a digest of the contents; these count more
  uint32_t poison = 0;                         // not 0: the word that fills new allocations
  uint32_t poison_every = 0;    // not 0: also, every so many launches, what kernels had written to device memory;
                                // inputs that are drawn again change then, too
  uint32_t poison_from = 0;     // launches before the first round of those; all that they wrote is filled, too
  bool poison_results = false;  // also, before the first launch, device memory that no input was copied to
  uint64_t scatter = 0;         // not 0: a seed by which device memory is allocated at other places, never twice at one
  bool watch = false;           // report how often the host had written device memory directly
  bool guard = false;           // end the program where the host reads or writes device memory directly
};

class Trial {
 public:
  void configure(const TrialOptions& options) { options_ = options; }
  bool on() const {
    return options_.outputs || options_.redraw.on() || options_.poison != 0 || options_.watch || options_.guard;
  }

  bool scatters() const { return options_.scatter != 0; }
  uint64_t place(size_t bytes);                        // where the next allocation goes: an offset in device memory
  void allocated(void* p, size_t bytes, bool device);  // `device`: the host may not touch it
  void released(const void* p);                        // call while the contents still exist
  void release_all();
  void copied_to_host(const char* data, size_t bytes, const void* from);  // one row of a copy
  void copied_to_device(char* data, size_t bytes, bool continues);  // one row; `continues`: not the first of its copy
  void written_by_command(const void* start);                       // by a copy or a fill
  void end_of_copy(uint64_t submission);  // its number among deferred operations, 0 without any
  // Draws again what the host wrote directly, such as managed memory, since it was allocated; poisons what kernels
  // wrote.
  void before_launch(const KernelInfo& kernel, const std::vector<uint8_t>& arguments);
  void after_launch();
  // Where calls of the API begin and end: in between, device memory may be accessed.
  void open();
  void close();
  // Around everything that may write device memory.
  void before_operation();
  void after_operation();
  void variable(const std::string& name, const char* data, size_t bytes);  // call at the end
  std::string render();  // the digests as the members of a JSON array; ends with those of live allocations

 private:
  // Later allocations are put below earlier ones, so that neighbours are other ones, in another order.
  static constexpr uint64_t kFirstPlace = 1ull << 39;
  // Kernels and parameters that an allocation is passed as -> the number of the last such launch among launches, copies
  // and fills.
  using Uses = std::map<std::pair<std::string, size_t>, uint64_t>;
  // Where the bytes of an entry come from, as far as that is known.
  struct Origin {
    Uses uses = {};
    int64_t source = -1;                // of a copy of one piece: the number of the allocation
    uint64_t offset = 0;                // of the piece in it
    uint64_t uploaded = 0;              // of an allocation: bytes that the host copied to it
    uint64_t written_at = 0;            // the number of the last copy to it, or fill, as in `uses`
    std::vector<uint64_t> inputs = {};  // digests of what the host copied to it
  };
  struct Buffer {
    uint64_t index, start;
    size_t bytes;
    uint64_t input = 0;         // the seed of the first input that was copied to it; 0: none
    bool drawn = false;         // its input has been drawn again, or a kernel may have written it
    bool device = false;        // the host may not touch it
    std::string state = "";     // digest after the last operation, if it is watched
    bool by_kernel = false;     // the last change was a kernel's; known if those are poisoned
    std::string contents = "";  // digest when changes were last looked for
    Origin origin = {};
  };
  class Digest {
   public:
    void add(const char* data, size_t bytes);
    std::string text() const;
    uint64_t number() const { return mix(a_ ^ bytes_) >> 1; }  // fits a signed number
    uint64_t bytes() const { return bytes_; }

   private:
    uint64_t a_ = 0x9e3779b97f4a7c15, b_ = 0xc2b2ae3d27d4eb4f, bytes_ = 0;
  };
  struct Entry {
    std::string kind;
    uint64_t index, bytes, recorded;
    std::string digest;
    Origin origin = {};
    uint64_t submission = 0;  // of a copy
  };
  void keep(const char* kind, uint64_t index, const Digest& digest, uint64_t recorded, const Origin& origin,
            uint64_t submission = 0);
  void number_copies();
  Buffer* buffer_at(uint64_t address);
  void note_uses(const KernelInfo& kernel, const std::vector<uint8_t>& arguments);
  InputKind kind_of(const Buffer& buffer) const;
  InputKind kind_of_input(uint64_t contents, const Buffer* buffer) const;
  uint64_t seed_of_input(uint64_t contents, uint64_t number);
  uint64_t record(const char* data, size_t bytes);
  static Digest digest_contents(uint64_t start, const Buffer& buffer);
  static std::string digest_of(uint64_t start, const Buffer& buffer) { return digest_contents(start, buffer).text(); }
  void check(uint64_t start, const Buffer& buffer);
  void protect(int protection);
  void poison_results();
  void poison_written();
  void note_changes(bool by_kernel);

  TrialOptions options_;
  std::map<uint64_t, Buffer> buffers_;  // live allocations by address
  std::vector<Entry> entries_;
  Digest copy_, rest_;        // the copy in progress; what came after the entries that are kept
  uint64_t copied_from_ = 0;  // where the copy in progress begins
  bool copies_piece_ = true;  // its rows follow each other
  uint64_t commands_ = 0;     // launches, copies to the device, copies within it, and fills
  uint64_t allocations_ = 0, copies_ = 0, inputs_ = 0, copy_recorded_ = 0, recorded_ = 0;
  uint64_t launches_ = 0, placed_ = 0, place_ = kFirstPlace;
  std::map<uint64_t, uint64_t> occurrences_;  // of inputs, by a digest of what the program put there
  bool launched_ = false;
  bool returned_ = false;     // something was copied to the host, so that later inputs may be made of results
  unsigned calls_ = 0;        // of the API that are in progress
  uint64_t host_writes_ = 0;  // times that a watched buffer had changed
  std::FILE* file_ = nullptr;
};

}  // namespace hipsynth::runtime
