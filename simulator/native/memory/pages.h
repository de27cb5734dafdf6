// Zero-initialised arrays for the simulator's own tables. Large ones use huge pages: their accesses are scattered, and
// address translation would otherwise cost more than the data. In medium-sized ones only touched pages cost memory and
// time.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <utility>

namespace hipsynth {

// `n` elements of a trivial type, initially zero, aligned to a host cache line. Throws std::bad_alloc.
template <class T>
class PageArray {
 public:
  PageArray() = default;
  explicit PageArray(size_t n) : size_(n) {
    if (n == 0) return;
    if (mapped()) {
      data_ = static_cast<T*>(map(bytes()));
    } else {
      data_ = static_cast<T*>(::operator new(bytes(), kAlign));
      std::memset(static_cast<void*>(data_), 0, bytes());
    }
  }
  PageArray(const PageArray& o) : PageArray(o.size_) {
    if (data_) std::memcpy(static_cast<void*>(data_), o.data_, bytes());
  }
  PageArray(PageArray&& o) noexcept : data_(std::exchange(o.data_, nullptr)), size_(std::exchange(o.size_, 0)) {}
  PageArray& operator=(PageArray o) noexcept {
    std::swap(data_, o.data_);
    std::swap(size_, o.size_);
    return *this;
  }
  ~PageArray() {
    if (!data_) return;
    if (mapped())
      munmap(data_, mapped_bytes(bytes()));
    else
      ::operator delete(data_, kAlign);
  }
  T* data() { return data_; }
  size_t size() const { return size_; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  void clear() {
    if (data_) std::memset(static_cast<void*>(data_), 0, bytes());
  }

 private:
  static constexpr std::align_val_t kAlign{64};
  static constexpr size_t kMappedBytes = 64 << 10, kAdvisedBytes = 1 << 20;
  static constexpr size_t kHugePage = 2 << 20;

  // Arrays of at least a huge page start on a huge page boundary and are padded to whole huge pages; otherwise their
  // two ends would use small pages.
  static size_t mapped_bytes(size_t bytes) {
    return bytes < kHugePage ? bytes : (bytes + kHugePage - 1) / kHugePage * kHugePage;
  }
  static void* map(size_t bytes) {
    const size_t slack = bytes < kHugePage ? 0 : kHugePage, whole = mapped_bytes(bytes);
    void* p = mmap(nullptr, whole + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) throw std::bad_alloc();
    auto* first = static_cast<char*>(p);
    if (slack) {
      const size_t skip = (kHugePage - reinterpret_cast<uintptr_t>(p) % kHugePage) % kHugePage;
      if (skip) munmap(first, skip);
      if (skip < slack) munmap(first + skip + whole, slack - skip);
      first += skip;
    }
    if (bytes >= kAdvisedBytes) madvise(first, whole, MADV_HUGEPAGE);  // only a hint, so the result is ignored
    return first;
  }
  size_t bytes() const { return size_ * sizeof(T); }
  bool mapped() const { return bytes() >= kMappedBytes; }

  T* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace hipsynth
