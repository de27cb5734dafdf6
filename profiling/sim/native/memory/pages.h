// Zeroed arrays for the simulator's own tables. Large ones lie in huge pages: their accesses are scattered, and address
// translation would otherwise cost more than the data.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstring>
#include <new>
#include <utility>

namespace hipsynth {

// `n` elements of a trivial type, zero at first, aligned to a host cache line. Throws std::bad_alloc.
template <class T>
class PageArray {
 public:
  PageArray() = default;
  explicit PageArray(size_t n) : size_(n) {
    if (n == 0) return;
    if (mapped()) {
      void* p = mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (p == MAP_FAILED) throw std::bad_alloc();
      madvise(p, bytes(), MADV_HUGEPAGE);  // a hint: what it returns does not matter
      data_ = static_cast<T*>(p);
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
      munmap(data_, bytes());
    else
      ::operator delete(data_, kAlign);
  }
  T* data() { return data_; }
  size_t size() const { return size_; }
  T& operator[](size_t i) { return data_[i]; }
  void clear() {
    if (data_) std::memset(static_cast<void*>(data_), 0, bytes());
  }

 private:
  static constexpr std::align_val_t kAlign{64};
  static constexpr size_t kMappedBytes = 1 << 20;
  size_t bytes() const { return size_ * sizeof(T); }
  bool mapped() const { return bytes() >= kMappedBytes; }

  T* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace hipsynth
