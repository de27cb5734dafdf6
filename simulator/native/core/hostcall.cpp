#include "core/hostcall.h"

#include <bit>
#include <cstring>

#include "core/launch.h"

namespace hipsynth {
namespace {

enum Service : uint32_t { kFunctionCall = 1, kPrintf = 2, kDeviceMemory = 3 };

struct Buffer {
  uint64_t headers, payloads, doorbell, free_stack, ready_stack, index_mask;
};
struct Header {
  uint64_t next, active;
  uint32_t service, control;
};
struct Payload {
  uint64_t words[64][8];  // per lane
};
// The fields of an HSA signal that device code uses: a mailbox makes it send a message to the host.
struct Signal {
  int64_t kind, value;
  uint64_t mailbox;
  uint32_t event, reserved;
};
static_assert(sizeof(Header) == 24 && sizeof(Buffer) == 48);

constexpr uint64_t kSignalAt = 64, kMailboxAt = 128, kHeadersAt = 256;
constexpr uint64_t kHeapBytes = 128 << 10;    // size that __ockl_dm_init_v1 clears; there are no initial slabs here
constexpr uint64_t kSlabBytes = 2ull << 20;   // device-side malloc finds a slab by the alignment of its blocks
constexpr uint64_t kMessageBytes = 64 << 10;  // longest text of one printf call
constexpr size_t kOpenMessages = 1 << 16;     // unfinished printf calls
constexpr size_t kMostText = 64 << 20;        // of one kernel
constexpr uint32_t kReadyFlag = 1;            // in Header::control: waiting for an answer
constexpr uint64_t kBegin = 1, kEnd = 2;      // bits of a message's first word; 5-7: words that follow; 8..: number
constexpr int kLengthAt = 5, kNumberAt = 8;

template <class T>
T* at(uint64_t address) {
  return reinterpret_cast<T*>(address);
}

uint64_t payloads_at(uint64_t buffer, uint64_t packets) {
  return buffer + (kHeadersAt + packets * sizeof(Header) + 4095) / 4096 * 4096;
}

}  // namespace

HostServices::~HostServices() {
  for (const uint64_t p : {buffer_, heap_}) {
    if (p) memory_.release(at<void>(p));
  }
}

uint64_t HostServices::buffer() {
  if (buffer_) return buffer_;
  const uint64_t n = std::bit_ceil(packets_), bytes = payloads_at(0, n) + n * sizeof(Payload);
  buffer_ = reinterpret_cast<uint64_t>(memory_.allocate(bytes, Memory::Kind::kernarg));
  auto* header = at<Header>(buffer_ + kHeadersAt);
  // A stack entry is a packet's index with a tag above the index bits; 0 marks the end, so packet 0 has a tag.
  for (uint64_t i = 1; i < n; ++i) header[i].next = i == 1 ? n : i - 1;
  *at<Buffer>(buffer_) = {
      buffer_ + kHeadersAt, payloads_at(buffer_, n), buffer_ + kSignalAt, n > 1 ? n - 1 : n, 0, n - 1};
  *at<Signal>(buffer_ + kSignalAt) = {1, 0, buffer_ + kMailboxAt, 1, 0};
  return buffer_;
}

uint64_t HostServices::heap() {
  if (!heap_) heap_ = reinterpret_cast<uint64_t>(memory_.allocate(kHeapBytes, Memory::Kind::kernarg));
  return heap_;
}

void HostServices::serve() {
  if (!buffer_) return;
  // Kernels can overwrite the whole buffer, so only indices are read from it, and those are range-checked.
  const uint64_t n = std::bit_ceil(packets_);
  uint64_t entry = std::exchange(at<Buffer>(buffer_)->ready_stack, 0);
  for (uint64_t count = 0; entry != 0 && count < n; ++count) {
    Header& header = at<Header>(buffer_ + kHeadersAt)[entry & (n - 1)];
    Payload& payload = at<Payload>(payloads_at(buffer_, n))[entry & (n - 1)];
    entry = header.next;
    for (uint64_t lanes = header.active; lanes; lanes &= lanes - 1) {
      answer(header.service, payload.words[std::countr_zero(lanes)]);
    }
    header.control &= ~kReadyFlag;
  }
}

void HostServices::answer(uint32_t service, uint64_t* words) {
  if (service == kPrintf) return print(words);
  if (service == kDeviceMemory) return device_memory(words);
  if (service == kFunctionCall && host_calls_) {
    uint64_t result[2] = {};
    at<void(uint64_t*, const uint64_t*)>(words[0])(result, words + 1);
    std::memcpy(words, result, sizeof result);
    return;
  }
  throw SimError(Reason::unsupported_service, "a kernel asked the host for service " + std::to_string(service) +
                                                  ", which this simulator does not offer");
}

// A printf call arrives in messages of up to seven words. Its first word selects stdout or stderr, then come the format
// and the arguments: strings with their terminator, padded to whole words.
void HostServices::print(uint64_t* words) {
  const uint64_t head = words[0], count = head >> kLengthAt & 7;
  const uint64_t number = head & kBegin ? ++last_message_ : head >> kNumberAt;
  if (messages_.size() > kOpenMessages) messages_.erase(messages_.begin());
  std::vector<uint64_t>& message = messages_[number];
  if (message.size() * 8 < kMessageBytes) message.insert(message.end(), words + 1, words + 1 + count);
  words[0] = number << kNumberAt;
  if (!(head & kEnd)) return;
  if (message.size() > 1 && output_.size() + errors_.size() < kMostText) {
    std::string& text = message[0] & 1 ? errors_ : output_;
    const auto* bytes = reinterpret_cast<const uint8_t*>(message.data() + 1);
    text += format_printf(bytes, bytes + (message.size() - 1) * 8);
  }
  messages_.erase(number);
}

// Address 0: allocates the given number of bytes. Otherwise frees the memory at the address.
void HostServices::device_memory(uint64_t* words) {
  if (words[0] != 0) {
    const Memory::Allocation* a = memory_.find(words[0], 1);
    if (a && a->kind == Memory::Kind::heap) memory_.release(at<void>(words[0]));
    return;
  }
  try {
    const uint64_t align = words[1] >= kSlabBytes ? kSlabBytes : 4096;
    words[0] = reinterpret_cast<uint64_t>(memory_.allocate(words[1], Memory::Kind::heap, align));
  } catch (const SimError&) {
    words[0] = 0;  // malloc returns null
  }
}

}  // namespace hipsynth
